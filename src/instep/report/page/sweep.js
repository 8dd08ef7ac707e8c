"use strict";
// The page of a sweep. The pictures come as SVG of our own drawing; a parser of SVG takes them in, and no script in them would run.

function picture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  return make("div", { class: "picture" }, document.importNode(parsed, true));
}

function numbers(rows) {
  return make("dl", { class: "numbers" }, ...rows.map(([what, value, more]) => make("div", {},
    make("dt", { text: what }), make("dd", { text: value }), make("dd", { class: "quiet", text: more }))));
}

function show(sweep) {
  document.getElementById("header").append(
    make("p", { class: "over", text: "Sweep" }), make("h1", { text: sweep.name }));
  const searched = Object.entries(sweep.space).map(([name, space]) => `${name}=${space}`).join("  ");
  const parts = [
    make("section", {}, numbers(sweep.numbers)),
    make("section", {}, make("h2", { text: "Parameters" }),
      make("p", { class: "quiet", text: `Searched: ${searched}. Each line is a trial, the best one in orange; dashed ones have no number.` }),
      picture(sweep.parallel)),
  ];
  if (sweep.importances) {
    parts.push(make("section", {}, make("h2", { text: "What matters" }),
      make("p", { class: "quiet", text: "The share of each parameter in reaching the best values among the finished trials, by Optuna." }),
      picture(sweep.importances)));
  }
  const head = sweep.rows.some((row) => row[row.length - 1]) ? sweep.head : sweep.head.slice(0, -1);
  const rows = sweep.rows.map((row) => row.slice(0, head.length));
  parts.push(make("section", { id: "trials" }, make("h2", { text: "Trials" }),
    table("All trials, the best first", head, rows, { marked: sweep.best })));
  document.getElementById("main").append(...parts);
  document.getElementById("footer").append(make("p", { text: "Made by Instep. The folder of each trial is a run: instep show, instep report." }));
}

show(JSON.parse(document.getElementById("document").textContent));
