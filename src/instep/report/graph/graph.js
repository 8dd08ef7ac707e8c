// The graph: boxes in groups that open and close. Orders come from the document; `place` computes coordinates as layout.py does.

const NAMESPACE = "http://www.w3.org/2000/svg";

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// --- Coordinates

function place(graph, closed) {
  const { pad, gapY, head, sign } = graph.metrics;
  const inside = (group) => {
    const level = graph.levels[group];
    const sizes = new Map();
    const inner = new Map();
    for (const item of level.layers.flat()) {
      const number = Number(item.slice(1));
      if (item[0] === "g" && !closed.has(number)) {
        const made = inside(item);
        sizes.set(item, made.size);
        inner.set(item, made.placed);
      } else sizes.set(item, item[0] === "b" ? [2, 0] : item[0] === "n" ? graph.boxes[number].size : graph.groups[number].size);
    }
    const centres = centresOf(graph.metrics, level, sizes);
    const left = sizes.size ? Math.min(...[...sizes].map(([item, [width]]) => centres.get(item) - width / 2)) : 0;
    const placed = new Map();
    let y = (group === "" ? 0 : head) + pad;
    let right = 0;
    for (const row of level.layers) {
      const tall = Math.max(0, ...row.map((item) => sizes.get(item)[1]));
      for (const item of row) {
        const isBend = item[0] === "b"; // an edge passes the whole layer
        const [width, own] = sizes.get(item);
        const height = isBend ? tall : own;
        const x = centres.get(item) - width / 2 - left + pad;
        const top = y + Math.min((tall - height) / 2, pad);
        placed.set(isBend ? `${group} ${item}` : item, { x, y: top, width, height });
        for (const [other, at] of inner.get(item) ?? []) placed.set(other, { ...at, x: at.x + x, y: at.y + top });
        right = Math.max(right, x + width);
      }
      y += tall + gapY;
    }
    const own = group === "" ? 0 : graph.groups[Number(group.slice(1))].label.length * sign + 40;
    return { size: [Math.max(right + pad, own), y - gapY + pad], placed };
  };
  const { size, placed } = inside("");
  return placed.set("", { x: 0, y: 0, width: size[0], height: size[1] });
}

function centresOf({ gapX, passes }, level, sizes) {
  const neighbours = [new Map(), new Map()];
  const add = (map, key, value) => (map.has(key) ? map.get(key).push(value) : map.set(key, [value]));
  for (const [one, other, points] of level.edges) {
    const chain = [one, ...points, other].filter(Boolean);
    for (let at = 1; at < chain.length; at += 1) {
      add(neighbours[0], chain[at], chain[at - 1]);
      add(neighbours[1], chain[at - 1], chain[at]);
    }
  }
  const centres = new Map([...sizes.keys()].map((item) => [item, 0]));
  level.layers.forEach((row) => settle(row, sizes, row.map(() => 0), centres, gapX));
  for (let turn = 0; turn < passes; turn += 1) {
    const rows = turn % 2 === 0 ? level.layers : [...level.layers].reverse();
    for (const row of rows) {
      const wishes = row.map((item) => {
        const known = neighbours[turn % 2].get(item);
        return known ? known.reduce((sum, other) => sum + centres.get(other), 0) / known.length : centres.get(item);
      });
      settle(row, sizes, wishes, centres, gapX);
    }
  }
  return centres;
}

function settle(row, sizes, wishes, centres, gap) {
  const offsets = [];
  row.forEach((item, at) => offsets.push(at ? offsets[at - 1] + (sizes.get(row[at - 1])[0] + sizes.get(item)[0]) / 2 + gap : 0));
  const blocks = [];
  wishes.forEach((wish, at) => {
    let block = [wish - offsets[at], 1];
    while (blocks.length && blocks.at(-1)[0] / blocks.at(-1)[1] >= block[0] / block[1]) {
      const [total, count] = blocks.pop();
      block = [block[0] + total, block[1] + count];
    }
    blocks.push(block);
  });
  let at = 0;
  for (const [total, count] of blocks) {
    for (const end = at + count; at < end; at += 1) centres.set(row[at], total / count + offsets[at]);
  }
}

// --- The page

class GraphPage {
  constructor(graph) {
    this.graph = graph;
    this.closed = new Set(graph.closed);
    this.routes = new Map(Object.values(graph.levels).flatMap(({ edges }) => edges.map(([one, other, points]) => [`${one} ${other}`, points])));
    this.chosen = null;
    this.matches = [];
    this.match = -1;
    this.svg = draw("svg", { role: "group", "aria-label": "Autograd graph", tabindex: "0" });
  }

  build() {
    const { title, summary } = this.graph;
    document.getElementById("header").append(
      make("div", {}, make("p", { class: "over", text: "Instep graph" }), make("h1", { text: title }), make("p", { class: "quiet", text: summary })),
      this._toolbar());
    this.about = make("aside", { id: "about", "aria-label": "What is chosen" });
    this.picture = make("div", { id: "picture" }, this.svg);
    document.getElementById("main").append(
      ...this.graph.notes.map((note) => make("p", { class: "note", text: note })),
      make("div", { class: "view" }, this.picture, this.about), this._memory());
    document.getElementById("footer").append(make("p", { text: "Made by instep." }));
    this._listen();
    this.render();
    this.fit();
    this.choose(null);
  }

  _toolbar() {
    const button = (text, onclick, more = {}) => make("button", { type: "button", text, onclick, ...more });
    this.search = make("input", { id: "search", type: "search", placeholder: "Search names and shapes", "aria-label": "Search names and shapes",
      oninput: () => this.find(this.search.value), onkeydown: (event) => { if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1); } });
    this.found = make("output", { id: "found", for: "search" });
    const dark = button("Dark", () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      dark.setAttribute("aria-pressed", String(isDark()));
    }, { "aria-pressed": String(isDark()) });
    return make("div", { class: "toolbar", role: "group", "aria-label": "How the graph is shown" },
      this.search, this.found, button("Next", () => this.go(1)),
      button("Open all", () => this.setClosed([]), { id: "open-all" }),
      button("Close all", () => this.setClosed(this.graph.groups.keys()), { id: "close-all" }),
      button("Fit", () => this.fit()), button("+", () => this.zoom(0.8), { "aria-label": "Larger" }),
      button("−", () => this.zoom(1.25), { "aria-label": "Smaller" }), make("span", { class: "spring" }), dark);
  }

  _memory() {
    const head = ["module", "operation", "keeps", "size", "share"];
    const rows = this.graph.memory.map(([box, path, label, kept, size, share]) => make("tr", {},
      make("td", { text: path }), make("th", { scope: "row" }, make("button", { type: "button", class: "small", text: label, onclick: () => this.show(`n${box}`) })),
      make("td", { text: kept }), make("td", { class: "number", text: size }), make("td", { class: "number", text: `${share} %` })));
    return make("section", { id: "memory" }, make("h2", { text: "What is kept for the backward" }),
      rows.length ? make("div", { class: "scroll" }, make("table", {},
        make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col", text })))), make("tbody", {}, ...rows)))
        : make("p", { class: "quiet", text: "Nothing beside parameters, buffers and inputs." }));
  }

  // What stands for a box: itself, or the outermost closed group around it.
  seenAs(item) {
    let shown = item;
    for (const group of this.above(item)) if (this.closed.has(group)) shown = `g${group}`;
    return shown;
  }

  above(item) {
    const number = Number(item.slice(1));
    const found = [];
    for (let group = item[0] === "n" ? this.graph.boxes[number].group : this.graph.groups[number].parent; group !== null; group = this.graph.groups[group].parent) found.push(group);
    return found;
  }

  setClosed(groups) {
    this.closed = new Set(groups);
    this.render();
    this.fit();
  }

  toggle(number) {
    if (!this.closed.delete(number)) this.closed.add(number);
    const before = this.placed.get(`g${number}`);
    this.render();
    const after = this.placed.get(`g${number}`);
    this.move(after.x - before.x, after.y - before.y); // the group stays where the pointer is
    this.svg.querySelector(`[data-item="g${number}"]`).focus({ preventScroll: true });
    this.say(`${this.graph.groups[number].label} ${this.closed.has(number) ? "closed" : "open"}`);
  }

  render() {
    this.placed = place(this.graph, this.closed);
    const groups = this.graph.groups.map((_, number) => `g${number}`).filter((item) => this.placed.has(item));
    const boxes = this.graph.boxes.map((_, number) => `n${number}`).filter((item) => this.placed.has(item));
    this.svg.replaceChildren(
      ...groups.filter((item) => !this.closed.has(Number(item.slice(1)))).map((item) => this._group(item)), ...this._edges(),
      ...groups.filter((item) => this.closed.has(Number(item.slice(1)))).map((item) => this._group(item)), ...boxes.map((item) => this._box(item)));
    this._mark();
  }

  _edges() {
    const seen = new Map();
    for (const [before, after] of this.graph.edges) {
      const [one, other] = [this.seenAs(`n${before}`), this.seenAs(`n${after}`)];
      if (one !== other && !seen.has(`${one} ${other}`)) seen.set(`${one} ${other}`, [one, other, before, after]);
    }
    return [...seen.values()].map(([one, other, before, after]) =>
      draw("path", { d: this._way(one, other, before, after), "data-from": one, "data-to": other }));
  }

  _way(one, other, before, after) {
    const paths = [before, after].map((number) => [...this.above(`n${number}`).reverse().map((group) => `g${group}`), `n${number}`]);
    const depth = paths[0].findIndex((item, at) => item !== paths[1][at]);
    const crossed = [[depth ? paths[0][depth - 1] : "", `${paths[0][depth]} ${paths[1][depth]}`]]; // and out of and into the open groups
    for (let at = depth + 1; at <= paths[0].indexOf(one); at += 1) crossed.unshift([paths[0][at - 1], `${paths[0][at]} `]);
    for (let at = depth + 1; at <= paths[1].indexOf(other); at += 1) crossed.push([paths[1][at - 1], ` ${paths[1][at]}`]);
    const bends = crossed.flatMap(([group, edge]) => this.routes.get(edge).map((point) => this.placed.get(`${group} ${point}`)));
    const [start, end] = [this.placed.get(one), this.placed.get(other)];
    const points = [[start.x + start.width / 2, start.y + start.height],
      ...bends.flatMap((bend) => [[bend.x + 1, bend.y], [bend.x + 1, bend.y + bend.height]]), [end.x + end.width / 2, end.y]];
    let text = `M${points[0].join(" ")}`;
    for (let at = 1; at < points.length; at += 1) {
      const [[x0, y0], [x1, y1]] = [points[at - 1], points[at]];
      text += `C${x0} ${(y0 + y1) / 2} ${x1} ${(y0 + y1) / 2} ${x1} ${y1}`;
    }
    return text;
  }

  _group(item) {
    const number = Number(item.slice(1));
    const { label, detail, mark } = this.graph.groups[number];
    const isClosed = this.closed.has(number);
    return this._shape(item, `group ${isClosed ? "closed" : "open"} ${mark}`, `${isClosed ? "▸" : "▾"} ${label}`, isClosed ? detail : "",
      { "aria-expanded": String(!isClosed), "aria-label": `module ${label}, ${detail}` });
  }

  _box(item) {
    const { kind, label, detail, mark } = this.graph.boxes[Number(item.slice(1))];
    return this._shape(item, `box ${kind} ${mark}`, label, detail, { "aria-label": `${kind} ${label} ${detail}` });
  }

  _shape(item, kind, label, detail, more) {
    const { x, y, width, height } = this.placed.get(item);
    const { pad, line } = this.graph.metrics;
    const shape = draw("g", { class: kind.trim(), "data-item": item, tabindex: "0", role: "button", ...more },
      draw("rect", { x, y, width, height, rx: 5 }), draw("text", { x: x + pad, y: y + line, text: label }));
    if (detail) shape.append(draw("text", { class: "quiet", x: x + pad, y: y + 2 * line, text: detail }));
    return shape;
  }

  // --- Looking around

  fit() {
    const { width, height } = this.placed.get("");
    const [wide, tall] = [this.picture.clientWidth || 800, this.picture.clientHeight || 600];
    const scale = Math.max(width / wide, Math.min(height / tall, 1.4), 0.7); // what is too long to be read stays readable, from its top
    this.setView(width / 2 - (wide * scale) / 2, Math.min(0, height / 2 - (tall * scale) / 2), wide * scale, tall * scale);
  }

  setView(x, y, width, height) {
    this.view = { x, y, width, height };
    this.svg.setAttribute("viewBox", [x, y, width, height].join(" "));
  }

  move(x, y) {
    const { view } = this;
    this.setView(view.x + x, view.y + y, view.width, view.height);
  }

  zoom(by, at = null) {
    const { x, y, width, height } = this.view;
    const [cx, cy] = at ?? [x + width / 2, y + height / 2];
    this.setView(cx - (cx - x) * by, cy - (cy - y) * by, width * by, height * by);
  }

  // Open what is around an item, bring it to the middle and choose it.
  show(item) {
    const around = this.above(item).filter((group) => this.closed.delete(group));
    if (around.length) this.render();
    const at = this.placed.get(item);
    const scale = Math.min(this.view.width / this.picture.clientWidth, 1.2);
    const [width, height] = [this.picture.clientWidth * scale, this.picture.clientHeight * scale];
    this.setView(at.x + at.width / 2 - width / 2, at.y + Math.min(at.height, height / 2) / 2 - height / 2, width, height);
    this.choose(item);
  }

  _point(event) {
    const at = this.svg.getBoundingClientRect();
    const { x, y, width, height } = this.view;
    return [x + ((event.clientX - at.left) / at.width) * width, y + ((event.clientY - at.top) / at.height) * height];
  }

  _listen() {
    let drag = null;
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(1.0015 ** event.deltaY, this._point(event));
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, far: 0 }; });
    addEventListener("pointermove", (event) => {
      if (!drag) return;
      const scale = this.view.width / this.picture.clientWidth;
      const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
      drag = { x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
      this.move(-dx * scale, -dy * scale);
    });
    addEventListener("pointerup", (event) => {
      const far = drag?.far ?? 99;
      drag = null;
      const item = event.target.closest?.("[data-item]")?.dataset.item;
      if (far < 4 && item) this._press(item);
    });
    this.svg.addEventListener("keydown", (event) => this._key(event));
    addEventListener("keydown", (event) => {
      if (event.key === "/" && document.activeElement !== this.search) {
        event.preventDefault();
        this.search.focus();
      }
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
  }

  _press(item) {
    this.choose(item);
    if (item[0] === "g") this.toggle(Number(item.slice(1)));
  }

  _key(event) {
    const item = event.target.dataset.item;
    const far = this.view.width / 12;
    const moves = { ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, -far], ArrowDown: [0, far] };
    if (moves[event.key]) this.move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.8);
    else if (event.key === "-") this.zoom(1.25);
    else if (event.key === "0") this.fit();
    else if ((event.key === "Enter" || event.key === " ") && item) this._press(item);
    else return;
    event.preventDefault();
  }

  // --- Searching and choosing

  find(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (said) => words.length > 0 && words.every((word) => said.toLowerCase().includes(word));
    this.matches = [
      ...this.graph.groups.map((group, number) => [`g${number}`, group.label]),
      ...this.graph.boxes.map((box, number) => [`n${number}`, `${this._path(`n${number}`)} ${box.kind} ${box.label} ${box.detail}`]),
    ].filter(([, said]) => has(said)).map(([item]) => item);
    this.match = -1;
    this.found.textContent = words.length ? `${this.matches.length} found` : "";
    this._mark();
  }

  go(step) {
    const { length } = this.matches;
    if (!length) return;
    this.match = (this.match + step + length) % length;
    this.found.textContent = `${this.match + 1} of ${length}`;
    this.show(this.matches[this.match]);
  }

  choose(item) {
    this.chosen = item;
    this._mark();
    this.about.replaceChildren(...this._about(item));
    if (item) this.say(this.about.querySelector("h2").textContent);
  }

  _about(item) {
    if (item === null) return this._legend();
    const number = Number(item.slice(1));
    const one = item[0] === "n" ? this.graph.boxes[number] : this.graph.groups[number];
    const facts = [["kind", one.kind ?? "module"], ["in", this._path(item)], ["", one.detail],
      ["", { first: "only in the first graph", second: "only in the second graph" }[one.mark] ?? ""]];
    const parts = [make("h2", { text: one.label }), ...facts.filter(([, said]) => said).map(([name, said]) => make("p", {}, name ? `${name}: ` : "", said))];
    if (one.saved?.length) parts.push(make("h3", { text: "Saved tensors" }), make("table", {}, make("tbody", {},
      ...one.saved.map((row) => make("tr", {}, ...row.map((text) => make("td", { text })))))));
    return parts;
  }

  _legend() {
    const isDifference = this.graph.boxes.some((box) => box.mark);
    const rows = [["", "operation that autograd recorded"], ["parameter", "parameter"], ["input", "input with a gradient"],
      ["cut", "cut, or a parameter that is not reached"],
      ...(isDifference ? [["first", "only in the first graph"], ["second", "only in the second graph"]] : [])];
    return [...rows.map(([kind, text]) => make("p", {}, make("span", { class: `swatch ${kind}` }), ` ${text}`)),
      make("p", { class: "quiet", text: "A click on a module opens or closes it. Drag to move, scroll to zoom. Keys: Tab, Enter, arrows, + and −, 0 to fit, / to search." })];
  }

  _path(item) {
    return this.above(item).reverse().map((group) => this.graph.groups[group].label).join(" / ");
  }

  _mark() {
    const matches = new Set(this.matches.map((item) => (this.placed.has(item) ? item : this.seenAs(item))));
    for (const shape of this.svg.querySelectorAll("[data-item]")) {
      shape.classList.toggle("match", matches.has(shape.dataset.item));
      shape.classList.toggle("chosen", shape.dataset.item === this.chosen);
    }
    for (const path of this.svg.querySelectorAll("path")) {
      path.classList.toggle("near", this.chosen !== null && (path.dataset.from === this.chosen || path.dataset.to === this.chosen));
    }
  }

  say(text) {
    document.getElementById("spoken").textContent = text;
  }
}

const page = new GraphPage(JSON.parse(document.getElementById("document").textContent));
page.build();
