// A table wider than the screen scrolls: a word above it and a shadow say so, as long as there is more to the right.

function markScrolling() {
  for (const box of document.querySelectorAll("div.scroll[role=region]")) {
    const hint = box.previousElementSibling;
    const look = () => {
      const left = box.scrollWidth - box.clientWidth;
      if (hint?.classList.contains("sideways")) hint.hidden = left <= 1;
      box.classList.toggle("more", left - box.scrollLeft > 1);
      box.classList.toggle("scrolled", box.scrollLeft > 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
  }
}

markScrolling();
