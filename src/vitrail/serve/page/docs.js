// The server's own description of its calls, as a page. Everything is set as text.

const made = (tag, text, ...inside) => {
  const element = Object.assign(document.createElement(tag), { textContent: text });
  element.append(...inside);
  return element;
};

const coded = (name, text) => made("li", "", made("code", name), ` ${text}`);

const call = (method, path, facts) => {
  const box = made("article", "", made("h3", "", made("b", method.toUpperCase()), path), made("p", facts.description ?? ""));
  box.className = "call";
  const lines = [
    ...(facts.parameters ?? []).map((p) => coded(`${p.in === "query" ? "?" : ""}${p.name}`, p.description ?? `in the ${p.in}`)),
    ...Object.keys(facts.requestBody?.content ?? {}).map((kind) => coded(kind, "as the body")),
    ...Object.entries(facts.responses).map(([status, answer]) => coded(status, answer.description)),
  ];
  box.append(made("ul", "", ...lines));
  return box;
};

const { paths } = await (await fetch("/openapi.json")).json();
const groups = new Map();
Object.entries(paths).forEach(([path, methods]) => Object.entries(methods).forEach(([method, facts]) => {
  const name = facts.tags?.[0] ?? "other";
  groups.set(name, [...(groups.get(name) ?? []), call(method, path, facts)]);
}));
groups.forEach((calls, name) => document.getElementById("calls").append(made("h2", name[0].toUpperCase() + name.slice(1)), ...calls));
