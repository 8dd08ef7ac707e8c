// Charts: panels that draw curves over a common axis, with uPlot. What a panel shows is in `spec`:
// { title, axis, logX, format, curves: [{ label, name, colour, dash, isEvaluated, steps, values, isHidden }], lines, marks }

// Each value averaged with its neighbours on both sides, one that is k points away weighing weight**k: an average over the past
// alone lags. Divided by the weights that there are, so that the ends are not drawn to 0.
function smoothed(values, weight) {
  const before = runningSums(values, weight);
  const after = runningSums([...values].reverse(), weight).reverse();
  return values.map((value, place) => {
    if (typeof value !== "number") return value;
    const [sum, total] = [0, 1].map((part) => before[place][part] + after[place][part]);
    return (sum - value) / (total - 1);
  });
}

function runningSums(values, weight) {
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    const isThere = typeof value === "number";
    sum = weight * sum + (isThere ? value : 0);
    total = weight * total + (isThere ? 1 : 0);
    return [sum, total];
  });
}

function finite(value) {
  return typeof value === "number" ? value : null;
}

class Panel {
  constructor(spec, page) {
    this.spec = spec;
    this.page = page; // smoothing, zoom and what they concern
    this.isLog = false;
    this.plot = null;
    this.isShown = spec.curves.map((curve) => !curve.isHidden);
    this.format = FORMATS[spec.format || "number"];
    this.element = this._build();
  }

  _build() {
    const { title } = this.spec;
    const id = `chart-${Panel.made++}`;
    this.area = make("div", {
      class: "plot", tabindex: "0", role: "group", "aria-roledescription": "chart",
      "aria-label": `${title}. Left and right read values, plus and minus zoom, 0 shows all.`,
      onkeydown: (event) => this._press(event),
    });
    this.logButton = make("button", {
      type: "button", class: "small", "aria-pressed": "false", text: "Log", title: "Logarithmic axis",
      "aria-label": `Logarithmic axis for ${title}`, disabled: !this._canBeLog(), onclick: () => this.setLog(!this.isLog),
    });
    this.keys = this.spec.curves.map((curve, index) => this._key(curve, index));
    this.where = make("span", { class: "where" });
    const table = make("details", { class: "data" }, make("summary", { text: "Data as a table" }));
    table.addEventListener("toggle", () => table.open && table.children.length === 1 && table.append(this._table()));
    return make(
      "figure", { class: `panel${this.spec.isWide ? " wide" : ""}`, "aria-labelledby": id },
      make("div", { class: "panel-head" }, make("h3", { id, text: title }), this.where, this.logButton),
      make("div", { class: "keys", role: "group", "aria-label": `Curves of ${title}` }, ...this.keys,
        ...(this.spec.lines || []).map((line) => this._lineKey(line))),
      this.area,
      table,
    );
  }

  _key(curve, index) {
    const value = make("span", { class: "value" });
    const button = make("button", {
      type: "button", class: "key", "aria-pressed": String(this.isShown[index]),
      onclick: () => this.setShown(index, !this.isShown[index]),
    }, swatch(curve), make("span", { class: "name", text: curve.label }), value);
    button.value_ = value;
    return button;
  }

  _lineKey(line) {
    return make("span", { class: "key" }, swatch({ colour: line.colour, dash: 2 }),
      make("span", { class: "name", text: `${line.label} ${this.format.value(line.value)}` }));
  }

  _canBeLog() {
    return this.spec.curves.some((curve) => curve.values.some((value) => typeof value === "number" && value > 0));
  }

  // --- Drawing

  draw() {
    if (this.plot !== null || !this.spec.curves.length) return;
    this.plot = new uPlot(this._options(), this._data(), this.area);
    this._tell(null);
    this.resizing ??= new ResizeObserver(() => this.resize());
    this.resizing.observe(this.area);
  }

  resize() {
    const width = this.area.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: this._height() });
  }

  redraw() {
    if (this.plot) this.plot.redraw(false, true);
  }

  setSmoothing() {
    if (!this.plot) return;
    const { min, max } = this.plot.scales.x;
    this._showSeries();
    this.plot.setData(this._data(), false);
    this.plot.setScale("x", { min, max });
  }

  drop() {
    if (this.plot) this.plot.destroy();
    this.plot = null;
  }

  // The same curves with more points.
  update(spec) {
    this.spec = spec;
    if (!this.plot) return;
    this.plot.setData(this._data(), false);
    if (this.page.zoom) this.plot.setScale("x", this.page.zoom);
    else this.zoom(null);
    this._tell(this.plot.cursor.idx);
  }

  setLog(isLog) {
    this.isLog = isLog;
    this.logButton.setAttribute("aria-pressed", String(isLog));
    if (!this.plot) return;
    this.drop();
    this.draw();
    if (this.page.zoom && !this.spec.logX) this.plot.setScale("x", this.page.zoom);
  }

  setShown(index, isShown) {
    this.isShown[index] = isShown;
    this.keys[index].setAttribute("aria-pressed", String(isShown));
    this._showSeries();
  }

  _showSeries() {
    if (!this.plot) return;
    this.spec.curves.forEach((curve, index) => {
      this.plot.setSeries(1 + 2 * index, { show: this.isShown[index] });
      this.plot.setSeries(2 + 2 * index, { show: this.isShown[index] && this._isSmoothed(curve) });
    });
  }

  _isSmoothed(curve) {
    return this.page.smoothing > 0 && !curve.isEvaluated && !curve.isExact && curve.values.length > 2;
  }

  _height() {
    return this.area.clientWidth < 420 ? 210 : this.spec.isWide ? 320 : 230;
  }

  // Every curve twice, as it is and smoothed, over one axis.
  _data() {
    const drawable = (value) => (this.isLog && !(value > 0) ? null : finite(value));
    const tables = this.spec.curves.flatMap((curve) => {
      const smooth = this._isSmoothed(curve) ? smoothed(curve.values, this.page.smoothing) : curve.values;
      return [curve.values, smooth].map((values) => [curve.steps, values.map(drawable)]);
    });
    const distinct = tables.map(([steps, values]) => lastOfEach(steps, values));
    return uPlot.join(distinct);
  }

  _options() {
    const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;
    const powers = (u, splits) => splits.map((value) => (isPower(value) ? value : null));
    const grid = { stroke: () => css("--grid"), width: 1 };
    const axis = { stroke: () => css("--quiet"), grid, ticks: { ...grid, size: 4 }, font: "12px system-ui, sans-serif" };
    const series = this.spec.curves.flatMap((curve, index) => {
      const faint = () => this._isSmoothed(curve);
      const dash = DASHES[curve.dash];
      const few = curve.steps.length <= 60;
      const common = { label: curve.label, spanGaps: false, dash, show: this.isShown[index] };
      return [
        { ...common, width: 1.75, stroke: () => inColour(curve.colour) + (faint() ? "55" : ""),
          points: { show: curve.isEvaluated && few ? true : curve.steps.length === 1, size: 5 } },
        { ...common, width: 2, stroke: () => inColour(curve.colour), show: this.isShown[index] && faint(), points: { show: false } },
      ];
    });
    return {
      width: this.area.clientWidth || 400,
      height: this._height(),
      padding: [10, 14, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, distr: this.spec.logX ? 3 : 1 },
        y: { distr: this.isLog ? 3 : 1, range: this.isLog ? undefined : (u, low, high) => this._range(low, high) },
      },
      axes: [
        { ...axis, grid: this.spec.logX ? { ...grid, filter: powers } : grid, ticks: this.spec.logX ? { show: false } : axis.ticks,
          values: (u, splits) => splits.map((value) => (value === null ? "" : tickNumber(value))), size: 28, label: this.spec.axis, labelSize: 18,
          labelFont: "12px system-ui, sans-serif", labelGap: 0 },
        { ...axis, values: (u, splits) => splits.map((value) => (value === null ? "" : this.format.tick(value))),
          size: (u, values) => Math.max(44, 14 + 7 * Math.max(...(values || [""]).map((text) => (text || "").length))) },
      ],
      series: [{}, ...series],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        sync: this.spec.logX ? undefined : { key: "steps", setSeries: false },
        dataIdx: (u, index, hovered) => nearestValue(u.data[index], hovered),
        points: { size: 7 },
      },
      hooks: {
        setCursor: [(u) => this._tell(u.cursor.idx)],
        setSelect: [(u) => this._select(u)],
        draw: [(u) => this._drawMarks(u)],
        ready: [(u) => u.over.addEventListener("dblclick", () => this._zoomTo(null))],
      },
    };
  }

  _range(low, high) {
    if (low === null || !Number.isFinite(low)) return [0, 1];
    for (const line of this.spec.lines || []) {
      if (line.value < 4 * high) [low, high] = [Math.min(low, line.value), Math.max(high, line.value)];
    }
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
  }

  // Lines across, steps that mean something, and a cross where a value was not finite.
  _drawMarks(u) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - 8 * devicePixelRatio, bbox.top, bbox.width + 16 * devicePixelRatio, bbox.height);
    ctx.clip();
    ctx.lineWidth = devicePixelRatio;
    for (const line of this.spec.lines || []) {
      const y = u.valToPos(line.value, "y", true);
      stroke(ctx, inColour(line.colour), [2, 3], [[bbox.left, y], [bbox.left + bbox.width, y]]);
    }
    for (const mark of this.spec.marks || []) {
      const x = u.valToPos(mark.step, "x", true);
      if (mark.kind === "checkpoint" || mark.kind === "best") {
        triangle(ctx, x, bbox.top + bbox.height, mark.kind === "best" ? css("--text") : css("--quiet"), mark.kind === "best");
      } else {
        stroke(ctx, css("--quiet"), mark.kind === "resumed" ? [4, 4] : [1, 3], [[x, bbox.top], [x, bbox.top + bbox.height]]);
      }
    }
    this.spec.curves.forEach((curve, index) => {
      if (!this.isShown[index]) return;
      curve.values.forEach((value, place) => {
        if (typeof value === "string") cross(ctx, u.valToPos(curve.steps[place], "x", true), bbox.top, inColour(curve.colour));
      });
    });
    ctx.restore();
  }

  // --- Reading and zooming

  _tell(index) {
    const data = this.plot ? this.plot.data : null;
    const isOn = data && index !== null && index !== undefined;
    this.where.textContent = isOn ? `${this.spec.axis} ${tickNumber(data[0][index])}` : "";
    this.spec.curves.forEach((curve, place) => {
      const at = isOn ? nearestValue(data[1 + 2 * place], index) : null;
      const last = curve.values[curve.values.length - 1];
      this.keys[place].value_.textContent = this.format.value(at === null ? last : data[1 + 2 * place][at]);
    });
  }

  _select(u) {
    if (u.select.width > 4) this._zoomTo({ min: u.posToVal(u.select.left, "x"), max: u.posToVal(u.select.left + u.select.width, "x") });
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  _zoomTo(range) {
    if (this.spec.logX) this.zoom(range);
    else this.page.zoomAll(range);
  }

  zoom(range) {
    if (!this.plot) return;
    const [x] = this.plot.data;
    this.plot.setScale("x", range || { min: x[0], max: x[x.length - 1] });
  }

  _press(event) {
    if (!this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const [x] = this.plot.data;
    const moves = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
    if (event.key in moves) this._move(moves[event.key]);
    else if (event.key === "+" || event.key === "=") this._zoomBy(0.5);
    else if (event.key === "-") this._zoomBy(2);
    else if (event.key === "0" || event.key === "Escape") this._zoomTo(null);
    else return;
    if (x.length) event.preventDefault();
  }

  _move(by) {
    const u = this.plot;
    const [x] = u.data;
    const { min, max } = u.scales.x;
    const first = x.findIndex((step) => step >= min);
    const last = x.length - 1 - [...x].reverse().findIndex((step) => step <= max);
    const from = u.cursor.idx ?? (by > 0 ? first - 1 : last + 1);
    const to = Math.max(first, Math.min(last, from + by));
    u.setCursor({ left: u.valToPos(x[to], "x"), top: 10 });
    const said = this.spec.curves.filter((curve, place) => this.isShown[place]);
    const values = said.map((curve) => `${curve.label} ${this.keys[this.spec.curves.indexOf(curve)].value_.textContent}`);
    this.page.speak(`${this.spec.axis} ${tickNumber(x[to])}: ${values.join(", ")}`);
  }

  _zoomBy(factor) {
    const u = this.plot;
    const [x] = u.data;
    const { min, max } = u.scales.x;
    const low = this.spec.logX ? Math.log(min) : min;
    const high = this.spec.logX ? Math.log(max) : max;
    const middle = u.cursor.idx === null || u.cursor.idx === undefined ? (low + high) / 2
      : this.spec.logX ? Math.log(x[u.cursor.idx]) : x[u.cursor.idx];
    const half = ((high - low) / 2) * factor;
    const whole = (value) => (this.spec.logX ? Math.exp(value) : value);
    const range = { min: Math.max(x[0], whole(middle - half)), max: Math.min(x[x.length - 1], whole(middle + half)) };
    this._zoomTo(range.min <= x[0] && range.max >= x[x.length - 1] ? null : range);
  }

  // --- The table

  _table() {
    const rows = new Map();
    this.spec.curves.forEach((curve, index) => curve.steps.forEach((step, place) => {
      if (!rows.has(step)) rows.set(step, new Array(this.spec.curves.length).fill(""));
      rows.get(step)[index] = curve.values[place] ?? "";
    }));
    const sorted = [...rows].sort(([one], [other]) => one - other);
    const left = this.spec.curves.reduce((most, curve) => Math.max(most, curve.leftOut || 0), 0);
    const caption = `${this.spec.title} by ${this.spec.axis}` + (left ? `; of long curves the extremes of each stretch, up to ${left.toLocaleString("en-US")} points left out` : "");
    return table(caption, [this.spec.axis, ...this.spec.curves.map((curve) => curve.label)], sorted.map(([step, values]) => [step, ...values]));
  }
}
Panel.made = 0;

function lastOfEach(steps, values) {
  const both = steps.map((step, place) => [step, values[place]]).filter(([step], place) => step !== steps[place + 1]);
  return [both.map(([step]) => step), both.map(([, value]) => value)];
}

function nearestValue(values, index) {
  if (!values || index === null || index === undefined) return index;
  for (let away = 0; away < values.length; away += 1) {
    for (const place of [index - away, index + away]) {
      if (values[place] !== null && values[place] !== undefined) return place;
    }
  }
  return null;
}

function stroke(ctx, colour, dash, points) {
  ctx.strokeStyle = colour;
  ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
  ctx.beginPath();
  points.forEach(([x, y], place) => (place ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.stroke();
  ctx.setLineDash([]);
}

function triangle(ctx, x, y, colour, isLarge) {
  const size = (isLarge ? 6 : 4) * devicePixelRatio;
  ctx.fillStyle = colour;
  ctx.beginPath();
  ctx.moveTo(x - size, y);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y - 1.6 * size);
  ctx.fill();
}

function cross(ctx, x, top, colour) {
  const size = 4 * devicePixelRatio;
  const y = top + 2 * size;
  stroke(ctx, colour, [], [[x - size, y - size], [x + size, y + size]]);
  stroke(ctx, colour, [], [[x - size, y + size], [x + size, y - size]]);
}
