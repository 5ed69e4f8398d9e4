"use strict";
(() => {
  const MANY_ROWS = 30;
  const element = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);

  // --- colour scheme: as the system has it, or as chosen ---------------------------------------------------------
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const store = {
    get() { try { return localStorage.getItem("nibble-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("nibble-theme", value); } catch { /* a page from a file may not */ } },
  };
  const button = element("button", { type: "button", className: "theme" });
  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.dataset.now = theme;
    button.textContent = "Colours: " + theme;
  };
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.now) + 1) % themes.length];
    store.set(next);
    show(next);
  });
  const stored = store.get();
  show(themes.includes(stored) ? stored : "auto");
  document.querySelector("header").append(button);

  // --- tables: sorted by a click on a column's head, filtered by words -------------------------------------------
  const named = { inf: Infinity, "-inf": -Infinity, nan: NaN };
  const numberOf = (cell) => {
    const written = cell.dataset.v || cell.textContent;
    return written in named ? named[written] : Number(written);
  };
  const textOf = (cell) => cell.title || cell.textContent;
  const collator = new Intl.Collator("en", { numeric: true });

  // Rows in order of a column; cells that hold nothing, or NaN, come last both ways.
  const sorted = (rows, column, sign) => {
    const numeric = rows.some((row) => row.cells[column].dataset.v !== undefined);
    const keys = new Map(rows.map((row) => {
      const cell = row.cells[column];
      if (!numeric) return [row, textOf(cell)];
      return [row, cell.dataset.v === undefined ? NaN : numberOf(cell)];
    }));
    const last = (key) => (numeric ? Number.isNaN(key) : key === "");
    return [...rows].sort((a, b) => {
      const x = keys.get(a);
      const y = keys.get(b);
      if (last(x) || last(y)) return last(x) - last(y);
      return sign * (numeric ? (x === y ? 0 : x < y ? -1 : 1) : collator.compare(x, y));
    });
  };

  const makeSortable = (table) => {
    const body = table.tBodies[0];
    const given = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const press = element("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(press);
      press.addEventListener("click", () => {
        // Rising, falling, then as given.
        const before = head.getAttribute("aria-sort");
        for (const other of heads) other.removeAttribute("aria-sort");
        if (before === "descending") {
          body.append(...given);
          return;
        }
        head.setAttribute("aria-sort", before ? "descending" : "ascending");
        body.append(...sorted(given, column, before ? -1 : 1));
      });
    });
  };

  const makeFilter = (table) => {
    const rows = [...table.tBodies[0].rows];
    const input = element("input", { type: "search", placeholder: "Filter rows" });
    input.setAttribute("aria-label", "Filter rows");
    const count = element("span", { textContent: rows.length + " rows" });
    count.setAttribute("role", "status");
    const texts = rows.map((row) => [...row.cells].map(textOf).join(" ").toLowerCase());
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      let left = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => texts[i].includes(word));
        left += !row.hidden;
      });
      count.textContent = left === rows.length ? rows.length + " rows" : left + " of " + rows.length + " rows";
    });
    const box = element("div", { className: "filter" });
    box.append(input, count);
    table.parentElement.before(box);
  };

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length > 1) makeSortable(table);
    if (table.tBodies[0].rows.length > MANY_ROWS) makeFilter(table);
  }

  // --- drawings: the nearest point is told -----------------------------------------------------------------------
  const tip = element("div", { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const tell = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + box.height + 24 > innerHeight ? y - box.height - 12 : y + 16) + "px";
  };

  const makeTips = (plot) => {
    const points = [...plot.querySelectorAll(".tips circle")].map((circle) => {
      const title = circle.querySelector("title");
      const series = circle.parentElement.dataset.series;
      const text = (series ? series + "\n" : "") + title.textContent;
      title.remove();  // else the browser shows a second tooltip
      circle.setAttribute("aria-label", text);
      return { circle, text, x: Number(circle.getAttribute("cx")), y: Number(circle.getAttribute("cy")) };
    });
    if (points.length === 0) return;
    let current = null;
    const choose = (point, at) => {
      if (current) current.circle.classList.remove("on");
      current = point;
      if (!point) {
        tip.hidden = true;
        return;
      }
      point.circle.classList.add("on");
      const box = point.circle.getBoundingClientRect();
      tell(point.text, at ? at.clientX : box.right, at ? at.clientY : box.bottom);
    };
    plot.addEventListener("pointermove", (event) => {
      const view = plot.getBoundingClientRect();
      const scale = plot.viewBox.baseVal.width / view.width;
      const x = (event.clientX - view.left) * scale;
      const y = (event.clientY - view.top) * scale;
      let nearest = null;
      let least = 40 * 40;
      for (const point of points) {
        const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (distance < least) {
          least = distance;
          nearest = point;
        }
      }
      choose(nearest, event);
    });
    plot.addEventListener("pointerleave", () => choose(null));
    plot.addEventListener("blur", () => choose(null));
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") choose(null);
      if (!step) return;
      event.preventDefault();
      const at = points.indexOf(current);
      choose(points[at < 0 ? (step > 0 ? 0 : points.length - 1) : (at + step + points.length) % points.length]);
    });
  };
  document.querySelectorAll(".plot").forEach(makeTips);

  const short = (value) => String(Number(value.toPrecision(4)));
  for (const plot of document.querySelectorAll(".histogram")) {
    const data = plot.dataset;
    const names = data.names.split("\n");
    const bins = data.bins.split(";").map((counts) => counts.split(","));
    const [low, high, left, right] = [data.low, data.high, data.left, data.right].map(Number);
    plot.addEventListener("pointermove", (event) => {
      const view = plot.getBoundingClientRect();
      const x = (event.clientX - view.left) * plot.viewBox.baseVal.width / view.width;
      const count = bins[0].length;
      const bin = Math.floor((x - left) / (right - left) * count);
      if (bin < 0 || bin >= count) {
        tip.hidden = true;
        return;
      }
      const at = (i) => short(low + (high - low) * i / count);
      const lines = names.map((name, i) => (name ? name + ": " : "") + Number(bins[i][bin]).toLocaleString("en"));
      tell([at(bin) + " to " + at(bin + 1), ...lines].join("\n"), event.clientX, event.clientY);
    });
    plot.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();
