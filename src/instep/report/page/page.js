// The page: sections made from the document. Text of a run only ever becomes text, never HTML.

const CLOCK_FORMATS = new Map([["Waiting for data", "percent"], ["Memory", "bytes"]]);
const ABOUT_MARKS = { best: "▲ best checkpoint", checkpoint: "▴ checkpoint", resumed: "┆ resumed", cycle: "⋮ a cycle begins" };

class Page {
  constructor(report) {
    this.report = report;
    this.panels = [];
    this.smoothing = 0;
    this.zoom = null;
    this.isSingle = report.runs.length === 1;
    this.seen = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      this.seen.unobserve(entry.target);
      this.panels.find((panel) => panel.element === entry.target).draw();
    }), { rootMargin: "600px" });
  }

  build() {
    const { runs } = this.report;
    document.getElementById("header").append(this._head(), this._toolbar());
    this.charts = this._charts();
    this._fill();
    addEventListener("beforeprint", () => this._printing(true));
    addEventListener("afterprint", () => this._printing(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this._themed());
  }

  // Everything but the charts, which stay as they are looked at.
  _fill() {
    const { runs } = this.report;
    const isOpen = new Set([...document.querySelectorAll("main details[open] > summary")].map((one) => one.textContent));
    const before = this.isSingle ? this._summary(runs[0]) : [this._comparison()];
    const after = runs.flatMap((run, number) => this._about(run, number));
    document.getElementById("main").replaceChildren(...before, this.charts, ...after);
    document.getElementById("footer").replaceChildren(make("p", { text: `Made by instep on ${this.report.made}.` }));
    document.querySelectorAll("main section:not(#charts) details, main > details").forEach((one) => { one.open = isOpen.has(one.firstChild.textContent); });
    this.panels.forEach((panel) => this.seen.observe(panel.element));
  }

  // The same runs with more in them.
  update(report) {
    const shape = (one) => JSON.stringify(one.charts.map((chart) => [chart.title, chart.curves.map((curve) => [curve.run, curve.name])]));
    const isSame = shape(report) === shape(this.report);
    this.report = report;
    const isKept = (panel) => isSame && this.charts.contains(panel.element);
    this.panels.filter((panel) => !isKept(panel)).forEach((panel) => panel.drop());
    this.panels = this.panels.filter(isKept);
    if (isSame) report.charts.forEach((chart, place) => this.panels[place].update(this._spec(chart, place === 0)));
    else this.charts = this._charts();
    this._fill();
  }

  // --- The head

  _head() {
    const { runs } = this.report;
    const run = runs[0];
    const said = this.isSingle ? [run.title, `begun ${run.created}`].filter(Boolean).join(" · ") : runs.map((one) => one.name).join(", ");
    return make("div", { class: "head" },
      make("p", { class: "over", text: "Instep report" }),
      make("h1", { text: this.isSingle ? run.name : `${runs.length} runs` }),
      make("p", { class: "quiet", text: said }));
  }

  _toolbar() {
    const shown = make("output", { for: "smoothing", text: "off" });
    const slider = make("input", { id: "smoothing", type: "range", min: "0", max: "100", value: "0", step: "1",
      oninput: () => {
        const share = Number(slider.value) / 100;
        this.smoothing = share === 0 ? 0 : 1 - 10 ** (-0.3 - 1.7 * share); // 0.5 to 0.99, finer towards the end
        shown.textContent = share === 0 ? "off" : this.smoothing.toFixed(2);
        this.panels.forEach((panel) => panel.setSmoothing());
      } });
    this.zoomButton = make("button", { type: "button", text: "Show all steps", disabled: true, onclick: () => this.zoomAll(null) });
    const dark = make("button", { type: "button", text: "Dark", "aria-pressed": String(isDark()), onclick: () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      this._themed();
    } });
    this.darkButton = dark;
    return make("div", { class: "toolbar", role: "group", "aria-label": "How the charts are shown" },
      make("label", { for: "smoothing", text: "Smoothing" }), slider, shown, this.zoomButton, make("span", { class: "spring" }), dark);
  }

  _themed() {
    this.darkButton.setAttribute("aria-pressed", String(isDark()));
    this.panels.forEach((panel) => panel.redraw());
  }

  _printing(isOn) {
    const root = document.documentElement;
    if (isOn) {
      this.themeBefore = root.dataset.theme;
      root.dataset.theme = "light";
    } else if (this.themeBefore) root.dataset.theme = this.themeBefore;
    else delete root.dataset.theme;
    this.panels.forEach((panel) => { panel.draw(); panel.resize(); });
    this._themed();
  }

  speak(text) {
    document.getElementById("spoken").textContent = text;
  }

  zoomAll(range) {
    this.zoom = range;
    this.zoomButton.disabled = range === null;
    this.panels.filter((panel) => !panel.spec.logX).forEach((panel) => panel.zoom(range));
  }

  // --- Numbers and charts

  _summary(run) {
    const numbers = make("dl", { class: "numbers" }, ...run.numbers.map(([name, value, more]) =>
      make("div", {}, make("dt", { text: name }), make("dd", { text: value, class: `state-${name === "state" ? value : ""}` }),
        more ? make("dd", { class: "quiet", text: more }) : null)));
    return [section("Summary", ...run.problems.map((problem) => make("p", { class: "note", text: problem })), numbers)];
  }

  _comparison() {
    const { runs, comparison } = this.report;
    const head = ["", ...runs.map((run) => run.name)];
    const parts = [table("Results of the runs", head, comparison.results, { isCaptionHidden: true })];
    parts.push(make("h3", { text: "What differs" }));
    if (comparison.settings.length) parts.push(table("What differs between the runs", head, comparison.settings, { isCaptionHidden: true }));
    else parts.push(make("p", { text: "The descriptions are the same." }));
    if (comparison.left_out) parts.push(make("p", { class: "quiet", text: `and ${comparison.left_out} more` }));
    const problems = runs.flatMap((run) => run.problems.map((problem) => make("p", { class: "note", text: `${run.name}: ${problem}` })));
    const found = section("The runs", ...problems, ...parts);
    found.querySelectorAll("thead tr").forEach((row) => [...row.children].slice(1).forEach((cell, number) => cell.prepend(swatch({ colour: number, dash: 0 }), " ")));
    return found;
  }

  _charts() {
    const specs = this.report.charts.map((chart, place) => this._spec(chart, place === 0));
    const marks = specs.length ? [...new Set(specs[0].marks.map((mark) => mark.kind))].map((kind) => ABOUT_MARKS[kind]) : [];
    const grid = make("div", { class: "grid" }, ...specs.map((spec) => this._panel(spec)));
    const words = specs.length
      ? make("p", { class: "quiet", text: ["Drag over a chart to zoom, double-click to see all.", ...marks].join("   ") })
      : make("p", { text: "Nothing was logged yet." });
    const found = section("Charts", words, grid);
    found.id = "charts";
    found.tabIndex = -1;
    return found;
  }

  _panel(spec) {
    const panel = new Panel(spec, this);
    this.panels.push(panel);
    return panel.element;
  }

  _spec(chart, isWide) {
    const isLoss = chart.title === "Loss";
    const names = [...new Set(chart.curves.map((curve) => curve.name))].sort((one, other) => isOfTraining(one) - isOfTraining(other));
    const curves = chart.curves.map((curve) => ({
      ...curve,
      label: this.isSingle ? curve.name : `${this.report.runs[curve.run].name} · ${curve.name}`,
      colour: this.isSingle ? names.indexOf(curve.name) : curve.run,
      dash: this.isSingle ? Number(curve.evaluated && isLoss) : names.indexOf(curve.name) % DASHES.length,
      isEvaluated: curve.evaluated,
      isExact: ["Learning rate", "Momentum"].includes(chart.title),
      isHidden: isLoss && isOfTraining(curve.name) && chart.curves.some((other) => other.run === curve.run && !other.evaluated),
      leftOut: curve.left_out,
    })).sort((one, other) => one.isHidden - other.isHidden);
    const lines = chart.lines.map((line) => ({ ...line, label: this.isSingle ? line.name : `${this.report.runs[line.run].name} · ${line.name}`,
      colour: this.isSingle ? curves.length : line.run }));
    return { title: chart.title, axis: "step", curves, lines, isWide, format: CLOCK_FORMATS.get(chart.title), marks: this.isSingle ? marksOf(this.report.runs[0]) : [] };
  }

  // --- About each run

  _about(run, number) {
    const parts = [
      this._evaluations(run), this._rangeTests(run), this._cycles(run), this._checkpoints(run), ...this._matrices(run),
      this._samples(run), this._preview(run), this._findings(run), this._facts(run), this._command(run),
    ].filter(Boolean);
    if (this.isSingle) return parts;
    const inner = make("details", { class: "run" }, make("summary", {}, swatch({ colour: number, dash: 0 }), make("h2", { text: run.name }),
      make("span", { class: "quiet", text: `${run.title} · ${run.state}` })), ...parts);
    inner.addEventListener("toggle", () => this.panels.forEach((panel) => inner.contains(panel.element) && panel.draw()));
    return [inner];
  }

  _evaluations(run) {
    const { names, rows, best, all } = run.evaluations;
    if (!rows.length) return null;
    const shown = 10;
    const cells = rows.map((row) => row.map((value, place) => (place < 2 || value === null ? value : shortNumber(value))));
    const start = Math.max(0, rows.length - shown);
    const parts = [table(`The last ${rows.length - start} of ${all} evaluations`, names, cells.slice(start), { marked: best - start })];
    if (best !== null && best < start) parts.unshift(table("The best evaluation", names, [cells[best]], { marked: 0 }));
    if (start) parts.push(make("details", { class: "data" }, make("summary", { text: `All ${rows.length} rows` }), table("Evaluations", names, rows, { marked: best })));
    return section("Evaluations", ...parts);
  }

  _rangeTests(run) {
    if (!run.range_tests.length) return null;
    const panels = run.range_tests.map((test) => {
      const curve = (label, values, colour) => ({ label, name: label, colour, dash: 0, isEvaluated: false, isExact: true, steps: test.lrs, values });
      const marks = typeof test.suggestion === "number" ? [{ kind: "suggested", step: test.suggestion }] : [];
      const said = typeof test.suggestion === "number" ? `Suggested: ${shortNumber(test.suggestion)}, confidence ${shortNumber(test.confidence)}: ` : "";
      return make("div", {}, this._panel({ title: test.step ? `Before step ${test.step}` : "Before the first step", axis: "learning rate", logX: true,
        curves: [{ ...curve("loss", test.losses, 0), isHidden: false }, curve("smoothed", test.smoothed, 1)], marks, lines: [] }),
        make("p", { class: "quiet", text: said + test.reason }));
    });
    return section("Range tests", make("div", { class: "grid" }, ...panels));
  }

  _cycles(run) {
    if (!run.cycles.length) return null;
    const names = ["cycle", "start", "stop", "max_lr", "confidence", "before", "after", "gain", "reason"];
    const rows = run.cycles.map((cycle) => names.map((name) => (typeof cycle[name] === "number" && !Number.isInteger(cycle[name]) ? shortNumber(cycle[name]) : cycle[name])));
    return section("Cycles", table("What was chosen for each cycle, and what it brought", names, rows));
  }

  _checkpoints(run) {
    if (!run.checkpoints.length) return null;
    const rows = run.checkpoints.map((one) => [one.step.toLocaleString("en-US"), one.size, one.written, [one.best ? "best" : "", one.latest ? "latest" : ""].filter(Boolean).join(", ")]);
    return section("Checkpoints", table("Checkpoints that the run keeps", ["step", "size", "written", ""], rows, { isCaptionHidden: true }));
  }

  _matrices(run) {
    return Object.entries(run.matrices).map(([name, { classes, names, counts: matrix, confusions }]) => {
      const called = (place) => names[place] ?? place;
      const title = `Confusion matrix: ${name}`;
      if (matrix === null) return section(title, table(`The most frequent confusions of ${classes} classes`, ["class", "taken for", "times"], confusions.map(([one, other, times]) => [called(one), called(other), times])));
      const most = Math.max(...matrix.flat(), 1);
      const found = table("A row for each class that is there, a column for each that was chosen", ["", ...matrix.map((row, place) => called(place))], matrix.map((row, place) => [called(place), ...row]));
      found.classList.add("matrix");
      found.querySelectorAll("tbody tr").forEach((row, i) => row.querySelectorAll("td").forEach((cell, j) => {
        const share = Math.sqrt(matrix[i][j] / most);
        cell.className = `cell ${i === j ? "right" : "wrong"} shade-${Math.round(share * 10)}`;
      }));
      return section(title, found);
    });
  }

  _samples(run) {
    if (!run.samples || !run.samples.length) return null;
    const cards = run.samples.map((sample) => make("figure", { class: "sample" }, sampleBody(sample),
      make("figcaption", {}, make("strong", { text: `loss ${shortNumber(sample.loss)}` }), make("span", { text: sample.name }),
        ...sample.said.map((line) => make("span", { text: line })))));
    return section("Samples with the largest losses", make("p", { class: "quiet", text: run.samples[0].about || "" }), make("div", { class: "samples" }, ...cards));
  }

  _preview(run) {
    const seen = run.preview;
    if (!seen) return null;
    const parts = seen.warnings.map((warning) => make("p", { class: "note", text: warning }));
    for (const set of seen.sets) {
      parts.push(make("h3", { text: set.name }), make("p", { class: "quiet", text: set.said }), table(`Columns of ${set.name}`, ["column", "type", "shape", "least", "most", "mean", "std"], set.columns, { isCaptionHidden: true }),
        ...set.features.map((line) => make("p", { class: "quiet", text: line })));
      if (set.classes.length) parts.push(table(`Classes of ${set.name}`, ["class", "samples", "share"], set.classes));
    }
    if (seen.pictures.length) {
      parts.push(make("p", { class: "quiet", text: seen.shown_as }), make("div", { class: "samples" }, ...seen.pictures.map((picture) =>
        make("figure", { class: "sample" }, make("img", { src: picture.png, alt: `a sample${picture.caption ? ` of class ${picture.caption}` : ""}` }), picture.caption ? make("figcaption", { text: picture.caption }) : null))));
    }
    parts.push(...seen.texts.map((text) => make("blockquote", { text })));
    return section("Data", ...parts);
  }

  _findings(run) {
    if (!run.findings) return null;
    const { findings, steps } = run.findings;
    const items = findings.map((one) => make("li", {}, make("strong", { text: `${one.severity}: ${one.id}` }), make("p", { text: one.message }),
      one.where ? make("p", { class: "quiet", text: one.where }) : null, one.fix ? make("pre", { text: one.fix }) : null));
    return section("The doctor", items.length ? make("ul", { class: "findings" }, ...items) : make("p", { text: `The doctor watched ${steps.toLocaleString("en-US")} updates and found nothing.` }));
  }

  _facts(run) {
    const groups = Object.entries(run.facts).map(([name, rows]) => {
      const changed = rows.filter(([key, , other]) => other !== null || key.endsWith("class"));
      const isLong = name === "Trainer" || name === "Optimizer";
      const list = (some) => make("dl", { class: "facts" }, ...some.flatMap(([key, value, other]) => [make("dt", { text: key, class: other ? "other" : null }),
        make("dd", {}, make("span", { text: value }), other ? make("span", { class: "quiet", text: ` (${other})` }) : null)]));
      if (!isLong || !rows.length || changed.length === rows.length) return make("div", {}, make("h3", { text: name }), list(rows));
      const rest = rows.filter((row) => !changed.includes(row));
      return make("div", {}, make("h3", { text: name }), list(changed),
        make("details", { class: "data" }, make("summary", { text: `${rest.length} as by default` }), list(rest)));
    });
    return section("Description", make("div", { class: "columns" }, ...groups));
  }

  _command(run) {
    if (run.command === null) return section("Train it again", make("p", { text: "No command made this run: run the program again that did." }));
    const code = make("code", { text: run.command });
    const copy = make("button", { type: "button", class: "small", text: "Copy", onclick: () => {
      getSelection().selectAllChildren(code);
      const done = navigator.clipboard ? navigator.clipboard.writeText(run.command) : Promise.reject();
      done.then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Selected"; });
    } });
    return section("Train it again", make("div", { class: "command" }, make("pre", { tabindex: "0" }, code), copy));
  }
}

function section(title, ...parts) {
  return make("section", { "aria-label": title }, make("h2", { text: title }), ...parts);
}

// The loss of training since the evaluation before, which the lines of the log have in more detail.
function isOfTraining(name) {
  return name.startsWith("train/");
}

function marksOf(run) {
  const kept = run.checkpoints.map((one) => ({ kind: one.best ? "best" : "checkpoint", step: one.step }));
  const resumed = run.resumed.map((step) => ({ kind: "resumed", step }));
  const cycles = run.cycles.slice(1).map((cycle) => ({ kind: "cycle", step: cycle.start }));
  return [...kept, ...resumed, ...cycles];
}

function sampleBody(sample) {
  if (sample.png) return make("img", { src: sample.png, alt: sample.name });
  return make("pre", { text: sample.text });
}

const page = new Page(JSON.parse(document.getElementById("document").textContent));
page.build();
