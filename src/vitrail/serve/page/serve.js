// Pictures in by drop, paste, choice or camera; answers out. Words from the server are only ever set as text.
import { available, takePicture } from "./camera.js";
import { draw, veil } from "./heat.js";

const $ = (id) => document.getElementById(id);
const KEPT = 24; // pictures of a visit
const LISTED = 28; // classes named before the first picture
const percent = (share) => {
  const value = share * 100;
  if (value > 99.5 && value < 100) return "> 99 %";
  return value > 0 && value < 1 ? "< 1 %" : `${Math.round(value)} %`;
};

let model = null;
let token = "";
let entries = [];
let current = null;

// Asking the server

const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// A server that is full says when to come back; the page does, a few times.
const ask = async (path, options = {}, patience = 3) => {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(path, { ...options, headers }).catch(() => null);
  if (!response) throw new Error("The server does not answer. Is it still running?");
  if (response.status === 503 && patience > 0) {
    await pause(Number(response.headers.get("Retry-After") ?? 1));
    return ask(path, options, patience - 1);
  }
  const found = await response.json().catch(() => ({}));
  if (response.status === 401) askForToken();
  if (!response.ok) throw new Error(found.error ?? `The server said ${response.status}.`);
  return found;
};

const send = (path, file) => ask(path, {
  method: "POST",
  body: file,
  headers: { "Content-Type": file.type.startsWith("image/") ? file.type : "application/octet-stream" },
});

const askForToken = () => {
  $("token").hidden = false;
  $("secret").focus();
};

const meet = async () => {
  model = await ask("/v1/model");
  $("token").hidden = true;
  $("model").textContent = `${model.name}, ${model.classes.length.toLocaleString("en")} classes`;
  document.title = `${model.name} – Vitrail`;
  const more = model.classes.length - LISTED;
  const names = [...model.classes.slice(0, LISTED), ...(more > 0 ? [`and ${more.toLocaleString("en")} more`] : [])];
  $("knows").replaceChildren(...names.map((name) => words("li", name)));
  writeCode();
};

// One picture, from file to entry

const look = async (file) => {
  const entry = { file, url: URL.createObjectURL(file), image: null, answer: null, error: null, maps: null };
  entries = [entry, ...entries];
  entries.splice(KEPT).forEach((old) => URL.revokeObjectURL(old.url));
  entry.image = await decoded(entry.url);
  show(entry);
  try {
    if (!model) await meet();
    entry.answer = (await send("/v1/predict?top=5", file)).predictions[0];
    if (model.attention) entry.maps = await send("/v1/attention", file);
  } catch (error) {
    if (!entry.answer) entry.error = error.message;
  }
  if (entry === current) show(entry);
  showHistory();
  $("status").textContent = `${headline(entry)}. ${explanation(entry)}`;
};

const decoded = async (url) => {
  const image = new Image();
  image.src = url;
  return image.decode().then(() => image, () => null);
};

const lookAll = async (files) => {
  for (const file of files) await look(file);
};

// What an entry says

const headline = ({ answer, error }) => {
  if (error) return "That did not work";
  if (!answer) return "Looking";
  return answer.unknown ? "Not sure" : answer.labels.join(", ");
};

const explanation = ({ answer, error }) => {
  if (error) return error;
  if (!answer) return "";
  const best = `${answer.label} at ${percent(answer.probability)}`;
  if (answer.unknown && model.multi_label) return `None of its labels is likely enough. The nearest is ${best}.`;
  if (answer.unknown) return `The nearest is ${best}, and this model answers only from ${percent(model.unknown_below)}.`;
  const sure = percent(answer.probability).replace(">", "More than").replace("<", "Less than");
  return answer.labels.length > 1 ? `The surest is ${best}.` : `${sure} sure.`;
};

const mood = ({ answer, error }) => (error ? "failed" : answer?.unknown ? "unsure" : "");

// Showing

const show = (entry) => {
  current = entry;
  const busy = !entry.answer && !entry.error;
  $("invite").hidden = $("knows").hidden = true;
  $("busy").hidden = !busy;
  $("pane").classList.add("full");
  $("answer").className = `answer ${mood(entry)}`;
  $("kicker").textContent = entry.file.name || "Pasted picture";
  $("label").textContent = headline(entry);
  $("said").textContent = explanation(entry);
  showBars(entry.answer);
  showPicture();
  showHistory();
};

const showBars = (answer) => {
  $("bars").hidden = !answer;
  $("bars").replaceChildren(...(answer?.top ?? []).map(({ label, probability }) => {
    const row = document.createElement("li");
    row.classList.toggle("stood", answer.labels.includes(label));
    const bar = document.createElement("i");
    bar.style.setProperty("--s", probability);
    row.append(words("span", label), words("span", percent(probability)), bar);
    return row;
  }));
};

const words = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

const showPicture = () => {
  const { image, maps, file } = current;
  $("canvas").hidden = !image || !model;
  $("blind").hidden = Boolean(image) || Boolean(current.error) || !current.answer;
  $("looked").hidden = !maps || !image;
  if (!image || !model) return;
  draw($("canvas"), image, model);
  $("canvas").setAttribute("aria-label", `${file.name || "The picture"}, as the model sees it`);
  if (!maps) return;
  const depth = maps.layers.length;
  const layer = Math.min(Number($("layer").value), depth);
  $("layer").max = depth;
  $("layer-name").textContent = `${layer} of ${depth}`;
  $("layer").setAttribute("aria-valuetext", `layer ${layer} of ${depth}`);
  $("layers").hidden = !$("heat").checked;
  if ($("heat").checked) veil($("canvas"), maps.grid, maps.layers[layer - 1]);
};

const showHistory = () => {
  $("visit").hidden = entries.length < 2;
  $("history").replaceChildren(...entries.map((entry) => {
    const button = document.createElement("button");
    button.type = "button";
    if (entry === current) button.setAttribute("aria-current", "true");
    const thumb = Object.assign(document.createElement(entry.image ? "img" : "span"), { className: "thumb" });
    if (entry.image) Object.assign(thumb, { src: entry.url, alt: "" });
    button.append(thumb, Object.assign(words("span", headline(entry)), { className: mood(entry), title: headline(entry) }));
    button.addEventListener("click", () => {
      show(entry); // which makes the buttons anew
      $("history").querySelector("[aria-current]").focus();
    });
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
};

// Code to copy

const writeCode = () => {
  const address = `${location.origin}/v1/predict`;
  const python = document.querySelector("[name=language]:checked").value === "python";
  const secret = token !== "";
  const curl = [
    `curl ${address}`,
    "-F file=@picture.jpg",
    ...(secret ? ['-H "Authorization: Bearer $VITRAIL_TOKEN"'] : []),
  ].join(" \\\n  ");
  const script = [
    "import json, urllib.request",
    "from pathlib import Path",
    "",
    'data = Path("picture.jpg").read_bytes()',
    `headers = {"Content-Type": "image/jpeg"${secret ? ', "Authorization": "Bearer " + TOKEN' : ""}}`,
    `request = urllib.request.Request("${address}", data, headers)`,
    "with urllib.request.urlopen(request) as reply:",
    '    answer = json.load(reply)["predictions"][0]',
    'print(answer["label"], answer["probability"])',
  ].join("\n");
  $("code").textContent = python ? script : curl;
};

const copy = async () => {
  try {
    await navigator.clipboard.writeText($("code").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("code"));
    $("copy").textContent = "Selected";
  }
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1600);
};

// Ways in

const useCamera = async () => {
  try {
    const file = await takePicture();
    if (file) await look(file);
  } catch {
    $("said").textContent = "The camera cannot be used. Choose a picture instead.";
  }
};

$("file").addEventListener("change", () => {
  lookAll([...$("file").files]);
  $("file").value = "";
});
$("camera").hidden = !available();
$("camera").addEventListener("click", useCamera);
document.addEventListener("paste", (event) => lookAll([...event.clipboardData.files]));
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  lookAll([...event.dataTransfer.files]);
});
$("heat").addEventListener("change", showPicture);
$("layer").addEventListener("input", showPicture);
$("copy").addEventListener("click", copy);
document.querySelectorAll("[name=language]").forEach((choice) => choice.addEventListener("change", writeCode));
$("token").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("secret").value;
  meet().catch((error) => { $("said").textContent = error.message; });
});

writeCode();
meet().catch((error) => { $("said").textContent = error.message; });
