"use strict";
{
  const steps = [...document.querySelectorAll(".step")];
  const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
  const button = document.getElementById("present");
  let current = 0;
  let started = false;

  const mark = (index) => {
    current = index;
    started = true;
    steps.forEach((step, i) => step.classList.toggle("current", i === index));
    links.forEach((a, id) => a.toggleAttribute("aria-current", id === steps[index].id));
    const link = links.get(steps[index].id);
    const list = link.closest("nav");
    if (list.scrollHeight > list.clientHeight) list.scrollTop = link.offsetTop - list.clientHeight / 2;
  };

  const go = (index) => {
    if (index < 0 || index >= steps.length) return;
    mark(index);
    steps[index].focus({ preventScroll: true });
    steps[index].scrollIntoView({ block: "start" });
  };

  const present = (on) => {
    document.body.classList.toggle("presenting", on);
    button.setAttribute("aria-pressed", String(on));
    go(current);
  };

  button.addEventListener("click", () => present(true));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.matches("input")) return;
    const scrolls = document.activeElement.closest(".scroll, .equation");
    const wide = scrolls && scrolls.scrollWidth > scrolls.clientWidth;
    if (event.key === "Escape") present(false);
    else if (event.key === "ArrowRight" && !wide) go(started ? current + 1 : 0);
    else if (event.key === "ArrowLeft" && !wide) go(current - 1);
    else return;
    event.preventDefault();
  });
  links.forEach((a, id) => a.addEventListener("click", () => mark(steps.findIndex((step) => step.id === id))));

  document.querySelectorAll(".explore").forEach((figure) => {
    const rows = [...figure.querySelectorAll(".row")];
    const patches = [...figure.querySelectorAll(".heat rect")];
    const percents = [...figure.querySelectorAll(".heat text")];
    const choose = (row) => {
      rows.forEach((other) => other.classList.toggle("chosen", other === row));
      const weights = [...row.querySelectorAll("[data-weight]")].slice(-patches.length).map((cell) => Number(cell.dataset.weight));
      const most = Math.max(...weights);
      patches.forEach((patch, i) => patch.setAttribute("fill-opacity", (weights[i] / most) * 0.88));
      percents.forEach((label, i) => { label.textContent = `${Math.round(weights[i] * 100)}%`; });
      figure.querySelector("[aria-live]").textContent = `${row.dataset.name} looks at`;
    };
    rows.forEach((row) => row.addEventListener("pointerenter", () => choose(row)));
    figure.querySelector(".square").addEventListener("keydown", (event) => {
      const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!move) return;
      event.preventDefault();
      choose(rows[Math.min(rows.length - 1, Math.max(0, rows.findIndex((row) => row.classList.contains("chosen")) + move))]);
    });
  });

  const seen = new IntersectionObserver(
    (entries) => {
      if (document.body.classList.contains("presenting")) return;
      entries.filter((entry) => entry.isIntersecting).forEach((entry) => mark(steps.indexOf(entry.target)));
    },
    { rootMargin: "-30% 0px -65% 0px" },
  );
  steps.forEach((step) => seen.observe(step));
}
