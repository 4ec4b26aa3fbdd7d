// What readers with a screen reader or a keyboard need, and the theme leaves out.
"use strict";

const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
const label = (selector, text) => each(selector, (e) => e.setAttribute("aria-label", text));

label(".sidebar-drawer", "Pages");
label(".toc-drawer", "On this page");
// What is wider than its frame is scrolled by keys too.
each("pre, .table-wrapper, div.math", (e) => { if (e.scrollWidth > e.clientWidth) e.tabIndex = 0; });
// Thumbnails of the gallery are links without words, beside their words.
each(".sphx-glr-thumbcontainer", (e) => {
  const title = e.querySelector(".sphx-glr-thumbnail-title")?.textContent;
  e.querySelectorAll("a").forEach((a) => a.setAttribute("aria-label", title));
});
each(".sphx-glr-tag-list:empty", (e) => e.remove());
