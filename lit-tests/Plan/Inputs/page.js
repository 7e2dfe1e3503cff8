// Runs the script of a page of fsdp-plan without a browser and prints what it
// would show: texts of the page, and counts of what it draws. With a second
// argument it writes the drawing as SVG.
"use strict";
const fs = require("fs");
const page = fs.readFileSync(process.argv[2], "utf8");
if (/(src|href)\s*=|https?:|@import|fetch\(/.test(page)) throw new Error("the page needs a network");

class Node {
  constructor(tag, id) {
    this.tag = tag;
    this.id = id;
    this.children = [];
    this.style = {};
    this.text = "";
    this.listeners = {};
    this.clientWidth = 1200;
    this.offsetWidth = this.offsetHeight = 100;
  }
  append(child) { this.children.push(child); }
  set textContent(text) { this.text = text; this.children = []; }
  get textContent() { return this.text + this.children.map(c => c.textContent).join(" | "); }
  addEventListener(name, listener) { this.listeners[name] = listener; }
  setPointerCapture() {}
  getBoundingClientRect() { return {left: 0, top: 0}; }
  getContext() { return pen; }
}

const style = /:root \{([^}]*)\}/.exec(page)[1];
const colors = Object.fromEntries([...style.matchAll(/--([\w-]+): (#\w+)/g)].map(m => [m[1], m[2]]));
let shapes = [], counts = {rect: 0, text: 0};
const escape = text => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
const pen = {
  clips: [], clipped: null,
  setTransform() { shapes = []; counts = {rect: 0, text: 0}; },
  beginPath() {}, stroke() {}, restore() { this.clipped = null; }, save() {},
  moveTo(x, y) { this.from = [x, y]; },
  lineTo(x, y) {
    shapes.push(`<line x1="${this.from[0]}" y1="${this.from[1]}" x2="${x}" y2="${y}" stroke="${this.strokeStyle}"/>`);
  },
  rect(x, y, width) { this.box = [x, width]; },
  clip() { this.clipped = this.box; },
  fillRect(x, y, width, height) {
    if (![x, y, width, height].every(Number.isFinite)) throw new Error("not a place");
    ++counts.rect;
    if (height > 0) shapes.push(`<rect x="${x.toFixed(2)}" y="${y.toFixed(2)}" width="${width.toFixed(2)}" height="${height.toFixed(2)}" fill="${this.fillStyle}"/>`);
  },
  fillText(text, x, y) {
    ++counts.text;
    if (this.clipped) text = text.slice(0, Math.floor(this.clipped[1] / 6.2));
    const bold = this.font.startsWith("bold") ? ' font-weight="bold"' : "";
    shapes.push(`<text x="${x}" y="${y}" fill="${this.fillStyle}" font-size="11" font-family="sans-serif"${bold}>${escape(text)}</text>`);
  },
};
const nodes = {};
global.document = {
  documentElement: new Node("html"), title: "",
  getElementById: id => nodes[id] ??= new Node("div", id),
  createElement: tag => new Node(tag),
};
global.getComputedStyle = () => ({getPropertyValue: name => colors[name.slice(2)] || "#888"});
global.window = {devicePixelRatio: 1};
global.innerWidth = global.innerHeight = 1000;
global.addEventListener = () => {};

const script = /<script>([\s\S]*)<\/script>/.exec(page)[1];
new Function(script)();
for (const id of ["title", "where", "cards", "story", "bars", "table", "kernels", "notes"])
  console.log(`${id}: ${nodes[id].textContent}`);
const whole = {...counts};
console.log(`draws: ${whole.rect} boxes, ${whole.text} texts`);
const canvas = nodes.canvas;
if (process.argv[3]) {
  const height = parseInt(canvas.style.height);
  fs.writeFileSync(process.argv[3],
      `<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="${height}">` +
      `<rect width="1200" height="${height}" fill="#fff"/>${shapes.join("\n")}</svg>`);
}
// Zoomed in, less is in sight; the tip says what the mouse is on.
const at = {clientX: 120, clientY: 52, deltaY: -1, preventDefault() {}};
for (let i = 0; i < 8; ++i) canvas.listeners.wheel(at);
console.log(`zoomed in: ${counts.text > 0 && counts.rect != whole.rect}`);
canvas.listeners.pointermove(at);
console.log(`tip: ${nodes.tip.textContent}`);
canvas.listeners.dblclick();
console.log(`zoomed out: ${counts.rect == whole.rect}`);
