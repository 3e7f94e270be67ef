"use strict";
// The page is whole without this: it adds sorting, large figures and a copy button.

const compare = (a, b) => {
  // Cells without a value stay last whichever way the column is sorted.
  if (a === "" || b === "") return 0;
  const [x, y] = [Number(a), Number(b)];
  return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
};

// A cell says what it is sorted by only where that is not what is read in it.
const sortOf = (cell) => cell.dataset.sort ?? cell.textContent;

for (const table of document.querySelectorAll("table")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = header.textContent;
    header.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => sortOf(row.cells[column]);
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) =>
        (value(a) === "") - (value(b) === "") || (down ? -1 : 1) * compare(value(a), value(b)));
      table.tBodies[0].append(...rows);
    });
  });
}

// A table as CSV: numbers as they are sorted, with all their digits.
const field = (text) => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
const csvOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => {
  const isNumber = cell.tagName === "TD" && cell.className === "number";
  const number = isNumber && sortOf(cell) && String(Number(sortOf(cell)));
  return field(isNumber ? number : cell.textContent.trim());
}).join(",")).join("\n") + "\n";

for (const table of document.querySelectorAll(".scroll table")) {
  const save = document.createElement("button");
  const label = table.closest(".scroll").getAttribute("aria-label");
  save.type = "button";
  save.className = "copy csv";
  save.textContent = "CSV";
  save.setAttribute("aria-label", "Save as CSV: " + label);
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
    link.download = label.toLowerCase().replaceAll(" ", "_") + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  table.closest(".scroll").after(save);
}

// Values of a figure: the one under the pointer or under a finger, and each in turn by the arrow
// keys of a slider, which is seen where it has the focus and whose value a screen reader says.
const [tip, ring] = ["tip", "ring"].map((name) => {
  const element = document.createElement("div");
  element.className = name;
  element.setAttribute("aria-hidden", "true");
  return element;
});
const hide = () => { tip.remove(); ring.remove(); };
const placeTip = () => {
  const [at, own] = [ring.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = at.left + at.width / 2 - own.width / 2;
  tip.style.left = Math.max(4, Math.min(left, innerWidth - own.width - 4)) + "px";
  tip.style.top = (at.top > own.height + 8 ? at.top - own.height - 6 : at.bottom + 6) + "px";
};
addEventListener("scroll", placeTip, { capture: true, passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

const NEAR = 24; // pixels from a dot at which it is still meant
const tellValues = (plot) => {
  const values = plot.dataset.values.split("\n").map((line) => {
    const [x, y, width, height, ...words] = line.split(" ");
    return { x: x / 1000, y: y / 1000, width: width / 1000, height: height / 1000, text: words.join(" ") };
  });
  const show = ({ x, y, width, height, text }) => {
    for (const [side, part] of Object.entries({ left: x, top: y, width: 2 * width, height: 2 * height }))
      ring.style[side] = 100 * part + "%";
    tip.textContent = text;
    plot.append(ring);
    (plot.closest("dialog") ?? document.body).append(tip);
    placeTip();
  };
  const nearest = (x, y, isMeant = () => true) => {
    const box = plot.getBoundingClientRect();
    let [best, least] = [null, Infinity];
    for (const value of values) {
      const right = Math.abs(x - box.left - value.x * box.width) - value.width * box.width;
      const down = Math.abs(y - box.top - value.y * box.height) - value.height * box.height;
      const far = Math.hypot(Math.max(0, right), Math.max(0, down));
      // Of bars and cells that touch, and dots within them, the one whose centre is nearer.
      if (far <= least + 1e-9 && isMeant(value, box) && (far < least - 1e-9 || right + down < best.inner))
        [best, least] = [{ value, far, inner: right + down }, far];
    }
    return best;
  };
  const follow = (event) => {
    const near = nearest(event.clientX, event.clientY);
    if (near && near.far <= NEAR) show(near.value); else hide();
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  // A finger leaves as soon as it is lifted: what it asked for stays.
  plot.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && plot.contains(ring)) hide();
  });
  plot.addEventListener("pointercancel", hide);

  const walk = document.createElement("input");
  Object.assign(walk, { type: "range", className: "walk unseen", min: 0, max: values.length - 1, step: 1, value: 0 });
  walk.setAttribute("aria-label", "Values: " + plot.getAttribute("aria-label"));
  const say = () => {
    const value = values[walk.value];
    walk.setAttribute("aria-valuetext", value.text);
    return value;
  };
  const step = () => {
    show(say());
    ring.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
    placeTip();
  };
  walk.addEventListener("focus", step);
  walk.addEventListener("input", step);
  walk.addEventListener("blur", hide);
  walk.addEventListener("keydown", (event) => {
    // Left and right follow the order of the values, up and down what is seen.
    const up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!up) return;
    event.preventDefault();
    const [from, box] = [values[walk.value], plot.getBoundingClientRect()];
    const next = nearest(box.left + from.x * box.width, box.top + from.y * box.height,
      (value) => up * (from.y - value.y) * box.height > 2);
    if (next) { walk.value = values.indexOf(next.value); step(); }
  });
  say();
  (plot.closest(".enlarge") ?? plot).after(walk);
};
for (const plot of document.querySelectorAll(".plot[data-values]")) tellValues(plot);

if (window.HTMLDialogElement) {
  const dialog = document.createElement("dialog");
  const close = document.createElement("button");
  close.type = "button";
  close.className = "copy";
  close.textContent = "Close";
  dialog.setAttribute("aria-label", "Enlarged figure");
  document.body.append(dialog);
  // A finger on the figure asks for a value.
  dialog.addEventListener("click", (event) => { if (!event.target.closest(".plot, .walk")) dialog.close(); });
  dialog.addEventListener("close", () => { hide(); dialog.replaceChildren(); });
  for (const link of document.querySelectorAll("a.enlarge")) {
    const plot = link.querySelector(".plot");
    link.setAttribute("aria-label", "Enlarge: " + plot.getAttribute("aria-label"));
    link.addEventListener("click", (event) => {
      event.preventDefault();
      hide();
      const large = plot.cloneNode(true);
      // Its references lead to what is in the page already: there is no identifier twice.
      for (const element of large.querySelectorAll("[id]")) element.removeAttribute("id");
      const { width, height } = plot.querySelector("svg").viewBox.baseVal;
      // In points; as large as the window holds, but never smaller than it is readable.
      large.style.width = Math.max(4 / 3 * width, 0.97 * Math.min(innerWidth, innerHeight * width / height)) + "px";
      dialog.replaceChildren(close, large);
      if (plot.dataset.values) tellValues(large);
      dialog.showModal();
    });
  }
}

// Paper shows what stands in what can be opened.
addEventListener("beforeprint", () => {
  for (const closed of document.querySelectorAll("details:not([open])")) {
    closed.open = true;
    addEventListener("afterprint", () => { closed.open = false; }, { once: true });
  }
});

for (const command of navigator.clipboard ? document.querySelectorAll("pre code") : []) {
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "copy";
  copy.textContent = "Copy the command";
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command.textContent);
    copy.textContent = "Copied";
  });
  command.parentElement.after(copy);
}
