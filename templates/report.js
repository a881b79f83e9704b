// Sorting, filtering and links to a view. Without this script the page says the
// same. A view is written in the fragment: #section?verdict=a,b&system=x&sort=table:column:up
(() => {
  "use strict";
  const view = { section: "", verdicts: new Set(), system: "", sort: new Map() };
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // --- Sorting: every table of the class "sortable".

  const headings = (table) => [...table.tHead.rows[0].cells];
  // A table of several bodies is sorted body by body, each by its first row.
  const groups = (table) => (table.tBodies.length > 1 ? [...table.tBodies] : [...table.tBodies].flatMap((body) => [...body.rows]));
  const firstRow = (group) => (group.rows ? group.rows[0] : group);

  function key(group, column, isNumber) {
    const row = firstRow(group);
    let at = 0;
    for (const cell of row.cells) {
      if (at === column) {
        if (!isNumber) return cell.textContent.trim();
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      }
      at += cell.colSpan;
    }
    return null;
  }

  function sort(table, column, direction) {
    const isNumber = headings(table)[column].classList.contains("n");
    const keyed = groups(table).map((group, place) => {
      group.dataset.place ??= place;
      return { group, key: key(group, column, isNumber), place: Number(group.dataset.place) };
    });
    const compare = (a, b) => (isNumber ? a - b : a.localeCompare(b, "en", { numeric: true }));
    keyed.sort((a, b) => {
      if (direction === "none") return a.place - b.place;
      // What is unknown comes last either way.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.place - b.place;
      return (direction === "down" ? -1 : 1) * compare(a.key, b.key) || a.place - b.place;
    });
    for (const { group } of keyed) group.parentNode.append(group);
    const words = { up: "ascending", down: "descending" };
    headings(table).forEach((heading, i) => {
      if (heading.querySelector("button")) heading.setAttribute("aria-sort", i === column ? words[direction] ?? "none" : "none");
    });
  }

  function makeSortable(table) {
    headings(table).forEach((heading, column) => {
      if (heading.classList.contains("unsorted") || !heading.textContent.trim()) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const next = { ascending: "down", descending: "none" }[heading.getAttribute("aria-sort")] ?? "up";
        if (next === "none") view.sort.delete(table.id);
        else view.sort.set(table.id, { column, direction: next });
        sort(table, column, next);
        remember();
      });
    });
  }

  // --- Filtering: whatever says of which verdict or system it is.

  function filter() {
    for (const element of all("[data-system], [data-verdict]")) {
      const { system, verdict } = element.dataset;
      const isOut =
        (view.system && system !== undefined && system !== view.system) ||
        (view.verdicts.size > 0 && verdict !== undefined && !view.verdicts.has(verdict));
      // Charts keep their axes: what is out is dimmed there, and left out elsewhere.
      if (element.closest("svg")) element.classList.toggle("dim", Boolean(isOut));
      else element.hidden = Boolean(isOut);
    }
    for (const button of all("#view button[data-choice]")) {
      button.setAttribute("aria-pressed", String(view.verdicts.has(button.dataset.choice)));
    }
    // What was asked for is not left behind a closed door.
    if (view.verdicts.size > 0) {
      for (const details of all("details:has(tr[data-verdict]:not([hidden]))")) details.open = true;
    }
    const select = document.querySelector("#view select");
    if (select) select.value = view.system;
    const rows = all("tr[data-verdict]");
    const shown = rows.filter((row) => !row.hidden).length;
    const status = document.querySelector("#view output");
    if (status) status.textContent = rows.length > 0 ? `${shown} of ${rows.length} verdicts shown` : "";
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function makeBar(bar) {
    const words = new Map(all("[data-verdict]").map((row) => [row.dataset.verdict, row.querySelector(".badge")?.textContent ?? row.dataset.verdict]));
    const systems = [...new Set(all("[data-system]").map((row) => row.dataset.system))].filter(Boolean);
    if (words.size < 2 && systems.length < 2) return;
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Choose what is shown");
    if (words.size > 1) {
      for (const [word, text] of words) {
        const button = element("button", { type: "button" }, text);
        button.dataset.choice = word;
        button.addEventListener("click", () => {
          if (!view.verdicts.delete(word)) view.verdicts.add(word);
          change();
        });
        bar.append(button);
      }
    }
    if (systems.length > 1) {
      const select = element("select", { ariaLabel: "System" }, element("option", { value: "" }, "all systems"));
      select.append(...systems.map((system) => element("option", { value: system }, system)));
      select.addEventListener("change", () => {
        view.system = select.value;
        change();
      });
      bar.append(select);
    }
    const reset = element("button", { type: "button" }, "show all");
    reset.addEventListener("click", () => {
      for (const id of view.sort.keys()) sort(document.getElementById(id), 0, "none");
      Object.assign(view, { system: "" });
      view.verdicts.clear();
      view.sort.clear();
      change();
    });
    bar.append(reset, element("a", { href: "#" }, "link to this view"), element("output", {}));
    bar.hidden = false;
  }

  // --- Links to a view.

  function fragment() {
    const parts = [];
    if (view.verdicts.size > 0) parts.push(`verdict=${[...view.verdicts].map(encodeURIComponent).join(",")}`);
    if (view.system) parts.push(`system=${encodeURIComponent(view.system)}`);
    for (const [id, { column, direction }] of view.sort) parts.push(`sort=${encodeURIComponent(id)}:${column}:${direction}`);
    return `#${view.section}${parts.length > 0 ? `?${parts.join("&")}` : ""}`;
  }

  function remember() {
    const here = fragment();
    history.replaceState(null, "", here);
    const link = document.querySelector("#view a");
    if (link) link.href = here;
  }

  function change() {
    filter();
    remember();
  }

  // What a link names and the page does not have is left out. A link inside the
  // page names a section alone, and keeps what is shown.
  function read(isFirst) {
    const [section, query] = location.hash.slice(1).split("?");
    const known = new Set(all("[data-verdict]").map((row) => row.dataset.verdict));
    const systems = new Set(all("[data-system]").map((row) => row.dataset.system));
    const wanted = new URLSearchParams(query ?? "");
    view.section = document.getElementById(section) ? section : "";
    if (query === undefined && !isFirst) return;
    view.verdicts = new Set((wanted.get("verdict") ?? "").split(",").filter((word) => known.has(word)));
    view.system = systems.has(wanted.get("system")) ? wanted.get("system") : "";
    view.sort = new Map();
    for (const text of wanted.getAll("sort")) {
      const [id, column, direction] = text.split(":");
      const table = document.getElementById(id);
      const heading = table?.classList.contains("sortable") ? headings(table)[Number(column)] : undefined;
      if (heading?.querySelector("button") && ["up", "down"].includes(direction)) {
        view.sort.set(id, { column: Number(column), direction });
      }
    }
  }

  function show(isFirst) {
    read(isFirst);
    for (const table of all("table.sortable")) {
      const { column, direction } = view.sort.get(table.id) ?? { column: 0, direction: "none" };
      sort(table, column, direction);
    }
    filter();
    const target = location.hash.includes("?") && document.getElementById(view.section);
    if (target) target.scrollIntoView();
    if (location.hash) remember();
  }

  // --- Exact values: of the shape under the pointer, or of all shapes of the row
  // that has the focus. A shape's title is what is shown without a script.

  const exact = (shape) => Object.entries(shape.dataset).filter(([name]) => ["x", "y", "value"].includes(name)).map(([, value]) => value).join(", ");

  const words = new Map(all("svg.chart :is([data-x], [data-value]) > title").map((title) => [title.parentNode, title.textContent]));

  function makeTips() {
    const tip = element("div", { id: "tip", hidden: true });
    document.body.append(tip);
    const shapes = "[data-x], [data-value]";
    function show(text, box) {
      tip.textContent = text;
      tip.hidden = false;
      const { width, height } = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(innerWidth - width - 4, box.left + box.width / 2 - width / 2))}px`;
      tip.style.top = `${box.top > height + 12 ? box.top - height - 8 : box.bottom + 8}px`;
    }
    const line = (shape) => `${words.get(shape) ?? ""}\nexactly ${exact(shape)}`;
    const hide = () => { tip.hidden = true; };
    for (const [shape] of words) {
      // The browser's own tip would stand over this one.
      shape.querySelector("title").remove();
      shape.setAttribute("role", "img");
      shape.setAttribute("aria-label", words.get(shape));
    }
    for (const svg of all("svg.chart")) {
      svg.addEventListener("pointerover", (event) => {
        const shape = event.target.closest(shapes);
        if (shape) show(line(shape), shape.getBoundingClientRect());
      });
      svg.addEventListener("pointerout", hide);
      for (const group of all("g[data-name]", svg)) {
        const own = all(shapes, group).filter((shape) => words.has(shape));
        if (own.length === 0) continue;
        group.setAttribute("tabindex", "0");
        group.setAttribute("role", "img");
        group.setAttribute("aria-label", own.slice(0, 8).map((shape) => words.get(shape)).join("; "));
        group.addEventListener("focus", () => show(own.slice(0, 8).map(line).join("\n"), own[0].getBoundingClientRect()));
        group.addEventListener("blur", hide);
      }
    }
    // Focus may scroll: what has it keeps its tip.
    window.addEventListener("scroll", () => { if (!document.activeElement?.closest("svg.chart")) hide(); }, { passive: true });
  }

  // --- Out of the page: a figure as an image that stands alone, its figures as CSV.

  const kept = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "stroke-linecap", "opacity", "font-size", "font-weight", "font-style", "font-family", "text-anchor"];

  // Pixels of a saved PNG for each pixel of the chart: 300 an inch in a column of 8 inches.
  const scale = 3;

  function save(name, address) {
    element("a", { href: address, download: name }).click();
  }

  const asAddress = (type, text) => `data:${type};charset=utf-8,${encodeURIComponent(text)}`;

  async function asPicture(svg) {
    const picture = new Image();
    picture.src = asAddress("image/svg+xml", asImage(svg));
    await picture.decode();
    const canvas = element("canvas", { width: scale * picture.naturalWidth, height: scale * picture.naturalHeight });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  }

  function asImage(svg) {
    const copy = svg.cloneNode(true);
    const shapes = [svg, ...all("*", svg)];
    [copy, ...all("*", copy)].forEach((shape, i) => {
      const style = getComputedStyle(shapes[i]);
      for (const name of kept) if (style.getPropertyValue(name)) shape.setAttribute(name, style.getPropertyValue(name));
      for (const name of ["class", "tabindex"]) shape.removeAttribute(name);
    });
    // A rim under a text is a text of its own: few programs know paint-order.
    for (const text of all("text", copy)) {
      if (text.getAttribute("stroke") === "none") continue;
      const rim = text.cloneNode(true);
      rim.setAttribute("fill", rim.getAttribute("stroke"));
      text.before(rim);
      text.setAttribute("stroke", "none");
    }
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.style.background = getComputedStyle(svg.closest("figure")).backgroundColor;
    return new XMLSerializer().serializeToString(copy);
  }

  function makeButtons() {
    for (const figure of all("figure[data-figure]")) {
      const shown = () => all("svg.chart", figure).find((svg) => svg.checkVisibility()) ?? figure.querySelector("svg.chart");
      const button = (text, make) => {
        const made = element("button", { type: "button", title: `Save this figure as ${text}` }, text);
        made.addEventListener("click", async () => save(`${figure.dataset.figure}.${text.toLowerCase()}`, await make(shown())));
        return made;
      };
      const bar = element("div", { className: "save" },
        button("SVG", (svg) => asAddress("image/svg+xml", asImage(svg))),
        button("PNG", asPicture));
      if (figure.dataset.csv) bar.append(button("CSV", () => asAddress("text/csv", figure.dataset.csv)));
      figure.append(bar);
    }
  }

  makeTips();
  makeButtons();
  all("table.sortable").forEach((table, i) => {
    table.id ||= `table-${i}`;
    makeSortable(table);
  });
  const bar = document.getElementById("view");
  if (bar) makeBar(bar);
  show(true);
  window.addEventListener("hashchange", () => show(false));
})();
