// Runs that are ticked are put in the command that compares them; the page shows what that is.
{
  const folders = {{ folders | tojson }};
  const code = document.querySelector("#compare pre code");
  const template = code.textContent;
  const copy = document.querySelector("#compare pre + .copy");
  const ticked = new Set();
  const state = document.createElement("p");
  state.setAttribute("role", "status");
  document.querySelector("#compare pre").before(state);
  const show = () => {
    const runs = folders.filter((folder, row) => ticked.has(row));
    const isEnough = runs.length > 1;
    code.textContent = isEnough ? {{ compare | tojson }} + " " + runs.join(" ") : template;
    state.textContent = runs.length + (runs.length === 1 ? " run" : " runs") + " ticked";
    if (copy) {
      copy.hidden = !isEnough;
      copy.textContent = "Copy the command";
    }
  };
  [...document.querySelectorAll("#runs tbody tr")].forEach((line, row) => {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.className = "tick";
    box.setAttribute("aria-label", "Compare " + line.cells[0].textContent);
    box.addEventListener("change", () => {
      if (box.checked) ticked.add(row);
      else ticked.delete(row);
      show();
    });
    line.cells[0].prepend(box);
  });
  show();
}
