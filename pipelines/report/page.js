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

if (window.HTMLDialogElement) {
  const dialog = document.createElement("dialog");
  const close = document.createElement("button");
  close.type = "button";
  close.className = "copy";
  close.textContent = "Close";
  const large = new Image();
  dialog.append(close, large);
  document.body.append(dialog);
  dialog.addEventListener("click", () => dialog.close());
  for (const link of document.querySelectorAll("a.enlarge")) {
    const image = link.querySelector("img");
    link.setAttribute("aria-label", "Enlarge: " + image.alt);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const [width, height] = [Number(image.getAttribute("width")), Number(image.getAttribute("height"))];
      // As large as the window holds, but never smaller than it is readable.
      const whole = 0.97 * Math.min(innerWidth / width, innerHeight / height);
      large.src = image.src;
      large.alt = image.alt;
      large.style.width = width * Math.max(1, whole) + "px";
      dialog.setAttribute("aria-label", "Enlarged figure");
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
