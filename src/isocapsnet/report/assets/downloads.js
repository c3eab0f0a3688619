/* Links under figures and tables that save them as SVG, PNG, CSV or LaTeX, and hints at tables that scroll. */
const save = (name, content, type) => {
  const link = document.createElement("a");
  link.href = typeof content === "string" && content.startsWith("data:") ? content : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  if (link.href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

const addDownloads = (place, what, kinds) => {
  const line = document.createElement("p");
  line.className = "downloads";
  line.append("Save as");
  for (const [kind, start] of Object.entries(kinds)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", `Save ${what} as ${kind}`);
    button.addEventListener("click", start);
    line.append(button);
  }
  place.append(line);
};

/* The figure by itself, in the colours of a light page. */
const standalone = (svg) => {
  const colours = readData("light-colours");
  const text = new XMLSerializer().serializeToString(svg).replace(/var\((--[\w-]+)\)/g, (whole, name) => colours[name] ?? whole);
  return `<?xml version="1.0" encoding="utf-8"?>\n${text}`;
};

for (const figure of document.querySelectorAll("figure[id]")) {
  const name = figure.id.replace(/^figure-/, "");
  const [svg, image] = [figure.querySelector("svg"), figure.querySelector("img")];
  if (svg) addDownloads(figure, `figure ${name}`, { SVG: () => save(`${name}.svg`, standalone(svg), "image/svg+xml") });
  if (image) addDownloads(figure, `figure ${name}`, { PNG: () => save(`${name}.png`, image.src) });
}

/* A table as rows of texts; a column of "mean [low, high]" becomes three, with the mean in full precision. */
const INTERVAL = /^(\S+) \[(\S+), (\S+)\]$/;
const plain = (text) => text.trim().replace(/\s+/g, " ");
const rowsOf = (table, splitIntervals) => {
  const cells = [...table.rows].map((row) => [...row.cells]);
  const texts = cells.map((row) => row.map((cell) => plain(cell.textContent)));
  const split = texts[0].map((_, column) => splitIntervals && texts.some((row) => INTERVAL.test(row[column])));
  return texts.map((row, index) => row.flatMap((text, column) => {
    if (!split[column]) return [text];
    if (index === 0) return [text, `${text}, low`, `${text}, high`];
    const [, mean, low, high] = INTERVAL.exec(text) ?? [text, text, "", ""];
    return [cells[index][column].dataset.value || mean, low, high];
  }));
};

/* A text that a spreadsheet would run as a formula gets an apostrophe. */
const asCsv = (rows) => rows.map((row) => row.map((text) => {
  const number = text.replace("−", "-");
  const safe = Number.isFinite(Number(number)) ? number : /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}).join(",")).join("\r\n") + "\r\n";

const LATEX = { "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "−": "$-$", "±": "$\\pm$", "χ": "$\\chi$", "²": "$^2$", "✗": "$\\times$", "★": "$\\star$", "×": "$\\times$", "<": "$<$", ">": "$>$", "\u00a0": "~" };
const asLatex = (rows, numeric, caption) => {
  const escape = (text) => text.replace(/[&%$#_{}]|[\\~^−±χ²✗★×<>\u00a0]/g, (sign) => LATEX[sign] ?? `\\${sign}`);
  const [head, ...body] = rows.map((row) => `${row.map(escape).join(" & ")} \\\\`);
  const columns = numeric.map((isNumber) => (isNumber ? "r" : "l")).join("");
  return ["% needs \\usepackage{booktabs}", "\\begin{table}", `\\caption{${escape(caption)}}`, `\\begin{tabular}{${columns}}`, "\\toprule", head, "\\midrule", ...body, "\\bottomrule", "\\end{tabular}", "\\end{table}", ""].join("\n");
};

for (const block of document.querySelectorAll(".table-block")) {
  const table = block.querySelector("table");
  const scroll = block.querySelector(".scroll");
  const caption = plain(table.caption.textContent);
  const numeric = [...table.tHead.rows[0].cells].map((cell) => cell.classList.contains("number"));
  const hint = document.createElement("p");
  hint.className = "scroll-hint";
  hint.textContent = "← Scroll the table sideways →";
  block.append(hint);
  const update = () => { hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1; };
  new ResizeObserver(update).observe(scroll);
  update();
  addDownloads(block, `table ${caption}`, {
    CSV: () => save(`${table.id}.csv`, asCsv(rowsOf(table, true)), "text/csv"),
    LaTeX: () => save(`${table.id}.tex`, asLatex(rowsOf(table, false), numeric, caption), "text/x-tex"),
  });
}
