"use strict";
{
  // Which part is being read
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const seen = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      links.forEach((a, id) => a.toggleAttribute("aria-current", id === entry.target.id));
    }),
    { rootMargin: "-20% 0px -75% 0px" },
  );
  document.querySelectorAll(".part").forEach((part) => seen.observe(part));

  // Sorting a table by a column: the first click puts the least first, the second turns the order around
  const value = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent;
  const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  const sort = (head) => {
    const body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    const rows = [...body.rows].sort((a, b) => compare(value(a, head.cellIndex), value(b, head.cellIndex)));
    body.append(...(up ? rows : rows.reverse()));
    [...head.parentNode.cells].forEach((cell) => cell.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
  };
  document.querySelectorAll(".sortable th button").forEach((button) => {
    button.addEventListener("click", () => sort(button.closest("th")));
  });

  // Copying a command; where the browser does not allow it, the command is selected instead
  const copy = async (button) => {
    const code = button.parentNode.querySelector("code");
    const label = button.firstChild;
    try {
      await navigator.clipboard.writeText(code.textContent);
      label.data = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      label.data = "Selected";
    }
    setTimeout(() => { label.data = "Copy"; }, 1600);
  };
  document.querySelectorAll(".copy").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  });

  // What a shape of a chart says, at once and beside the pointer instead of after the browser's pause
  const hint = document.getElementById("hint");
  const said = (target) => {
    const shape = target.closest("svg *");
    const title = shape?.querySelector(":scope > title") ?? shape?.parentNode.querySelector(":scope > title");
    if (!title) return shape?.closest("[data-said]")?.dataset.said;
    title.parentNode.dataset.said = title.textContent;
    title.remove();
    return title.textContent;
  };
  document.addEventListener("pointermove", (event) => {
    const words = event.target.closest("svg") ? said(event.target) : undefined;
    hint.hidden = !words;
    if (!words) return;
    hint.textContent = words;
    hint.style.left = `${Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8)}px`;
    hint.style.top = `${Math.max(8, event.clientY - hint.offsetHeight - 12)}px`;
  });

  // Paper has nothing to unfold
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
}
