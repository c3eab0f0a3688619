/* Packed arrays, copy buttons, and all details opened for printing or for a link to them. */
document.documentElement.classList.add("scripted");

const readData = (id) => {
  const holder = document.getElementById(id);
  return holder && JSON.parse(holder.textContent);
};

const bytesOf = (packed) => Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
const unpackIndices = (packed) => new Uint16Array(bytesOf(packed).buffer);

/* Half-precision floats times their scale. */
const unpackNumbers = (packed) => Float32Array.from(unpackIndices(packed), (bits) => {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  const size = exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024);
  return sign * size * packed.scale;
});

/* Call draw when the page's colours or the element's size change, at most once a frame. */
const redrawOnChange = (element, draw) => {
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  new ResizeObserver(later).observe(element);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  return later;
};

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

for (const button of document.querySelectorAll("button[data-copies]")) {
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});

const openTarget = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
};
addEventListener("hashchange", openTarget);
openTarget();
