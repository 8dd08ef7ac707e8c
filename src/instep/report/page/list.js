// The list of runs that a server has: filtered, chosen for a comparison, and kept up to date.

const MOST_COLUMNS = 8;

// `lr=0.01 width>64 digits`: every part must hold; a word alone must be in the name, the title or the state.
function matches(run, text) {
  return text.trim().split(/\s+/).filter(Boolean).every((part) => {
    const found = /^(.+?)(<=|>=|!=|=|<|>)(.*)$/.exec(part);
    if (!found) return [run.name, run.title, run.state].some((said) => said.toLowerCase().includes(part.toLowerCase()));
    const [, name, sign, wanted] = found;
    const value = run.hyper_parameters[name] ?? run.numbers[name];
    if (value === undefined) return false;
    const isNumber = typeof value === "number" && wanted !== "" && Number.isFinite(Number(wanted));
    const [one, other] = isNumber ? [value, Number(wanted)] : [String(value), wanted];
    return { "=": one === other, "!=": one !== other, "<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other }[sign];
  });
}

class RunList {
  constructor(runs) {
    this.chosen = new Set();
    this.filter = make("input", { id: "filter", type: "search", placeholder: "lr=0.01 width>64 digits", oninput: () => this.show() });
    this.compare = make("button", { type: "button", text: "Show chosen runs together", disabled: true, onclick: () => { location.href = address([...this.chosen]); } });
    this.count = make("span", { class: "quiet", role: "status" });
    document.getElementById("header").append(
      make("div", { class: "head" }, make("p", { class: "over", text: "Instep" }), make("h1", { text: "Runs" })),
      make("div", { class: "toolbar", role: "group", "aria-label": "Which runs are listed" },
        make("label", { for: "filter", text: "Filter" }), this.filter, this.count, make("span", { class: "spring" }), this.compare));
    this.update(runs);
  }

  update(runs) {
    this.runs = [...runs].sort((one, other) => (one.created < other.created ? 1 : -1));
    this.show();
  }

  // Hyper-parameters in which the runs differ.
  columns(runs) {
    const names = new Set(runs.flatMap((run) => Object.keys(run.hyper_parameters)));
    return [...names].filter((name) => new Set(runs.map((run) => String(run.hyper_parameters[name]))).size > 1).slice(0, MOST_COLUMNS);
  }

  show() {
    const shown = this.runs.filter((run) => matches(run, this.filter.value));
    const names = this.columns(this.runs);
    const head = ["run", "", "state", "step", "loss", "monitored", ...names, "begun"];
    const rows = shown.map((run) => [run.name, "", run.state, run.step === null ? "" : `${run.step.toLocaleString("en-US")}${run.end >= run.step ? ` of ${run.end.toLocaleString("en-US")}` : ""}`,
      shortNumber(run.numbers.loss), run.monitor in run.numbers ? `${run.monitor} ${shortNumber(run.numbers[run.monitor])}` : "",
      ...names.map((name) => run.hyper_parameters[name] ?? ""), run.created.slice(0, 16).replace("T", " ")]);
    const focused = document.activeElement?.dataset?.run;
    const found = table("Runs", head, rows, { isCaptionHidden: true });
    found.classList.add("whole");
    found.querySelectorAll("tbody tr").forEach((row, place) => this._link(row, shown[place]));
    document.getElementById("main").replaceChildren(shown.length ? found : make("p", { text: this.runs.length ? "No run matches." : "There are no runs here yet." }));
    this.count.textContent = `${shown.length} of ${this.runs.length}`;
    if (focused) [...document.querySelectorAll("input[data-run]")].find((box) => box.dataset.run === focused)?.focus();
  }

  _link(row, run) {
    row.children[0].replaceChildren(make("a", { href: address([run.name]), text: run.name }));
    const box = make("input", { type: "checkbox", "aria-label": `choose ${run.name}`, "data-run": run.name, onchange: () => {
      if (box.checked) this.chosen.add(run.name);
      else this.chosen.delete(run.name);
      this.compare.disabled = this.chosen.size === 0;
    } });
    box.checked = this.chosen.has(run.name);
    row.children[1].append(box);
  }
}

function address(names) {
  return `report?${new URLSearchParams(names.map((name) => ["run", name]))}`;
}

const list = new RunList(JSON.parse(document.getElementById("document").textContent).runs);
new EventSource("events").addEventListener("changed", async () => {
  const answer = await fetch("list");
  if (answer.ok) list.update(await answer.json());
});
