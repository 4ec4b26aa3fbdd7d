"use strict";

// The data of the page, and how elements are made. Text only ever enters as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const DASH = "\u2013";

const at = (id) => document.getElementById(id);
const percent = (value, digits = 1) => (value == null ? DASH : (100 * value).toFixed(digits) + "%");
const decimal = (value, digits = 3) => (value == null ? DASH : value.toFixed(digits));

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "click") made.addEventListener("click", value);
    else if (value != null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

function dot(colour, ring = false) {
  const made = element("span", { class: ring ? "dot ring" : "dot" });
  made.style.setProperty("--colour", colour);
  return made;
}

// A switch that is on or off.
function toggle(label, on, click, colour, ring) {
  const attributes = { type: "button", class: "toggle", "aria-pressed": String(on), click };
  return element("button", attributes, colour ? dot(colour, ring) : null, label);
}

// New children in the place of old ones; the button that was pressed keeps the focus.
function keepingFocus(parent, children) {
  const place = [...parent.querySelectorAll("button")].indexOf(document.activeElement);
  parent.replaceChildren(...children);
  if (place >= 0) parent.querySelectorAll("button")[place]?.focus({ preventScroll: true });
}

// A name for a file, out of anything.
function fileName(...words) {
  return words.map((word) => word.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|-+$/g, "")).join("_") + ".png";
}
