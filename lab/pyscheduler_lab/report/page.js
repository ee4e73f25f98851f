"use strict";
// Draws the charts from the data in this file. A group of runs, which differ in their seed only, has a colour, a pattern
// of dashes and a mark, so that its lines differ without colour, too. With several seeds, it has a thin line for each.
(() => {
  const groups = JSON.parse(document.getElementById("data").textContent);
  const runs = groups.flatMap((group, index) => group.runs.map((run) => ({ ...run, group: index })));
  const hidden = new Set();
  const WIDTH = 640, HEIGHT = 300, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 38;
  const DASHES = ["", "7 3", "2 3", "9 3 2 3"];
  const SVG = "http://www.w3.org/2000/svg";
  const colour = (group) => `var(--run-${group % 8})`;
  // The colours begin again after 8 groups; the second term shifts the dashes then, so that 32 groups differ.
  const dashes = (group) => DASHES[(Math.floor(group / 2) + Math.floor(group / 8)) % DASHES.length];
  const hasSeeds = (group) => groups[group].runs.length > 1;

  function element(parent, name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    parent.append(made);
    return made;
  }

  function time(seconds) {
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
      if (Math.abs(seconds) >= size) return `${+(seconds / size).toPrecision(3)} ${unit}`;
    return `${+seconds.toPrecision(3)} s`;
  }
  const share = (value) => `${+(100 * value).toPrecision(3)} %`;
  const number = (value) => `${+value.toPrecision(3)}`;

  // Steps that people count in.
  function ticks(most, bases) {
    if (!(most > 0)) return [0];
    const power = 10 ** Math.floor(Math.log10(most / 5));
    const step = (bases || [1, 2, 5, 10].map((factor) => factor * power)).find((each) => most / each <= 6) || most;
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, index) => index * step);
  }
  const LOGARITHMIC_TIMES = [1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000];
  const TIMES = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 432000, 864000, 1728000, 4320000, 8640000];

  // A scale from values to places. A logarithmic one begins with one second, below which all values are at its begin.
  function scale(most, begin, end, isLogarithmic) {
    const of = (value) => (isLogarithmic ? Math.log10(Math.max(value, 1)) : value);
    const span = of(most) || 1;
    const place = (value) => begin + ((end - begin) * of(value)) / span;
    place.back = (at) => {
      const value = (span * (at - begin)) / (end - begin);
      return isLogarithmic ? 10 ** value : value;
    };
    return place;
  }

  function frame(name, label) {
    const figure = document.getElementById(name);
    const svg = element(figure.querySelector(".chart"), "svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: "0", "aria-label": label,
    });
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("role", "status");
    figure.append(tip);
    return { figure, svg, tip };
  }

  function axes(svg, x, y, xs, ys, xText, yText, xLabel) {
    for (const value of ys) {
      element(svg, "line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) });
      element(svg, "text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, yText(value));
    }
    for (const value of xs) {
      element(svg, "line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: HEIGHT - BOTTOM });
      element(svg, "text", { x: x(value), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, xText(value));
    }
    element(svg, "text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, xLabel);
  }

  // Lines; each series has its group, its seed, its points in order of x, and `at`, the value for a place on the x axis.
  function lines(name, label, series, options) {
    const { figure, svg, tip } = frame(name, label);
    const all = series.flatMap((each) => each.points);
    const xMost = Math.max(options.isLogarithmic ? 10 : 0, ...all.map((point) => point[0]));
    const yMost = options.yMost || Math.max(0, ...all.map((point) => point[1] ?? 0)) || 1;
    const x = scale(xMost, LEFT, WIDTH - RIGHT, options.isLogarithmic);
    const y = scale(yMost, HEIGHT - BOTTOM, TOP);
    const xs = options.isLogarithmic
      ? LOGARITHMIC_TIMES.filter((value) => value <= xMost)
      : ticks(xMost, TIMES);
    axes(svg, x, y, xs, ticks(yMost), time, options.yText, options.xLabel);
    for (const each of series) {
      let path = "", isOn = false;
      for (const [at, value] of each.points) {
        if (value === null) { isOn = false; continue; }
        path += `${isOn ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
        isOn = true;
      }
      const made = element(svg, "path", { class: "series", d: path, stroke: colour(each.group), "stroke-dasharray": dashes(each.group), "data-group": each.group, "data-seed": each.seed });
      made.classList.toggle("thin", hasSeeds(each.group));
    }
    const cursor = element(svg, "line", { class: "cursor hidden", y1: TOP, y2: HEIGHT - BOTTOM });
    let place = LEFT;
    function show(at) {
      place = Math.min(Math.max(at, LEFT), WIDTH - RIGHT);
      const value = x.back(place);
      cursor.classList.remove("hidden");
      cursor.setAttribute("x1", place);
      cursor.setAttribute("x2", place);
      const rows = [time(value)];
      groups.forEach((group, index) => {
        if (hidden.has(index)) return;
        const found = series.filter((each) => each.group === index).map((each) => each.at(value)).filter((each) => each !== null);
        if (!found.length) return;
        const ends = new Set([Math.min(...found), Math.max(...found)].map(options.yText));
        rows.push(`${group.name}: ${[...ends].join(" to ")}`);
      });
      tip.replaceChildren(...rows.map((row) => Object.assign(document.createElement("div"), { textContent: row })));
      tip.hidden = false;
      const ratio = svg.getBoundingClientRect().width / WIDTH;
      const isRight = place > WIDTH / 2;
      tip.style.top = `${svg.parentElement.offsetTop + 8}px`;
      tip.style.left = isRight ? "auto" : `${place * ratio + 12}px`;
      tip.style.right = isRight ? `${(WIDTH - place) * ratio + 12}px` : "auto";
    }
    function hide() {
      tip.hidden = true;
      cursor.classList.add("hidden");
    }
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      show(((event.clientX - box.left) / (box.width || WIDTH)) * WIDTH);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(place + step);
    });
  }

  function overTime(name, heading, options) {
    const series = runs.map((run) => {
      const values = run[name], length = run.seconds / values.length || 1;
      const points = values.flatMap((value, part) => [[part * length, value], [(part + 1) * length, value]]);
      const at = (seconds) => values[Math.min(Math.floor(seconds / length), values.length - 1)] ?? null;
      return { group: run.group, seed: run.seed, points, at: (seconds) => (seconds > run.seconds * (1 + 1e-9) ? null : at(seconds)) };
    });
    lines(name, heading, series, { xLabel: "time since the first arrival", ...options });
  }

  function waits() {
    const series = runs.map((run) => {
      const steps = run.waits.length - 1;
      const points = run.waits.map((wait, step) => [wait, step / steps]);
      const at = (seconds) => {
        const below = run.waits.filter((wait) => wait <= seconds).length;
        return run.waits.length ? Math.max(below - 1, 0) / steps : null;
      };
      return { group: run.group, seed: run.seed, points, at };
    });
    lines("waits", "Distribution of waits", series, { xLabel: "wait", yText: share, yMost: 1, isLogarithmic: true });
  }

  // A row for each team, with a mark for each run at its mean wait; runs of a group have the same mark.
  function teams() {
    const names = [...new Set(runs.flatMap((run) => run.teams.map((team) => team.team)))].slice(0, 24);
    const { svg, tip } = frame("teams", "Mean wait by team");
    const bottom = TOP + names.length * 22, height = bottom + BOTTOM;
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
    const left = 130;
    const most = Math.max(10, ...runs.flatMap((run) => run.teams.map((team) => team.wait_mean_s ?? 0)));
    const x = scale(most, left, WIDTH - RIGHT - 8, true);
    for (const value of LOGARITHMIC_TIMES.filter((each) => each <= most)) {
      element(svg, "line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: bottom });
      element(svg, "text", { x: x(value), y: bottom + 15, "text-anchor": "middle" }, time(value));
    }
    element(svg, "text", { x: (left + WIDTH) / 2, y: height - 5, "text-anchor": "middle" }, "mean wait");
    names.forEach((name, row) => {
      const y = TOP + row * 22 + 11;
      element(svg, "line", { class: "grid", x1: left, x2: WIDTH - RIGHT, y1: y, y2: y });
      element(svg, "text", { x: left - 8, y: y + 4, "text-anchor": "end" }, name.length > 18 ? `${name.slice(0, 17)}…` : name);
      runs.forEach((run) => {
        const team = run.teams.find((each) => each.team === name);
        if (!team || team.wait_mean_s === null) return;
        const at = x(team.wait_mean_s), shape = run.group % 3;
        const made = shape === 0
          ? element(svg, "circle", { cx: at, cy: y, r: 5 })
          : element(svg, "path", { d: shape === 1 ? `M${at - 5} ${y - 5}h10v10h-10z` : `M${at} ${y - 6}l6 11h-12z` });
        const seed = hasSeeds(run.group) ? `, seed ${run.seed}` : "";
        const text = `${groups[run.group].name}${seed}, ${name}: ${time(team.wait_mean_s)}`;
        for (const [key, value] of Object.entries({ class: "dot", fill: colour(run.group), "data-group": run.group, "data-team": name, "data-value": team.wait_mean_s }))
          made.setAttribute(key, value);
        element(made, "title", {}, text);
        made.addEventListener("pointerenter", () => {
          tip.textContent = text;
          tip.hidden = false;
          tip.style.left = `${(at * svg.getBoundingClientRect().width) / WIDTH}px`;
          tip.style.top = `${svg.parentElement.offsetTop + (y * svg.getBoundingClientRect().width) / WIDTH}px`;
        });
        made.addEventListener("pointerleave", () => { tip.hidden = true; });
      });
    });
  }

  function buttons() {
    const nav = document.getElementById("runs");
    groups.forEach((group, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      const key = element(button, "svg", { width: 28, height: 8, viewBox: "0 0 28 8", "aria-hidden": "true" });
      key.style.width = "28px";
      element(key, "line", { x1: 0, x2: 28, y1: 4, y2: 4, stroke: colour(index), "stroke-width": 3, "stroke-dasharray": dashes(index) });
      button.append(hasSeeds(index) ? `${group.name} (${group.runs.length} seeds)` : group.name);
      button.addEventListener("click", () => {
        const isOff = !hidden.delete(index);
        if (isOff) hidden.add(index);
        button.setAttribute("aria-pressed", String(!isOff));
        for (const each of document.querySelectorAll(`[data-group="${index}"]`)) each.classList.toggle("hidden", isOff);
      });
      nav.append(button);
    });
  }

  buttons();
  waits();
  overTime("utilisation", "Utilisation over time", { yText: share, yMost: 1 });
  overTime("waiting", "Waiting jobs over time", { yText: number });
  overTime("fragmentation", "Fragmentation over time", { yText: share, yMost: 1 });
  teams();
})();
