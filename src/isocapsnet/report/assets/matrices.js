/* One subject at a time: input, reconstruction and their difference, with the value under the pointer. */
{
  const data = readData("reconstruction-data");
  if (data) {
    const root = document.getElementById("reconstruction-viewer");
    const chooser = root.querySelector("select");
    const logarithmic = root.querySelector("input[type=checkbox]");
    const output = root.querySelector("output");
    const views = [...root.querySelectorAll("[data-matrix]")].map((part) => ({
      canvas: part.querySelector("canvas"), bar: part.querySelector(".scale-bar"), ends: part.querySelectorAll(".scale span"),
    }));
    const sets = data.map((set) => ({ ...set, inputs: unpackNumbers(set.inputs), outputs: unpackNumbers(set.outputs) }));
    const size = data[0].inputs.shape[1];
    const names = readData("node-names");
    let matrices = [];
    let cell = null;

    const mix = (from, to, share) => from.map((value, i) => Math.round(value + (to[i] - value) * share));
    const BLUE = [0, 114, 178], WHITE = [255, 255, 255], VERMILION = [213, 94, 0], BROWN = [92, 38, 0];
    const signedColour = (t) => (t < 0 ? mix(WHITE, BLUE, -t) : mix(WHITE, VERMILION, t));
    const magnitudeColour = (t) => (t < 0.5 ? mix(WHITE, VERMILION, 2 * Math.max(t, 0)) : mix(VERMILION, BROWN, 2 * t - 1));
    /* As in the printed figure: linear within a thousandth of the limit, then three decades. */
    const stretch = (t) => Math.sign(t) * Math.log10(1 + 999 * Math.abs(t)) / 3;
    const shown = (value) => (Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(2) : +value.toPrecision(3)).toString().replace("-", "−");

    const choose = () => {
      const [which, index] = chooser.value.split(":").map(Number);
      const part = (array) => array.subarray(index * size * size, (index + 1) * size * size);
      const [input, decoded] = [part(sets[which].inputs), part(sets[which].outputs)];
      matrices = [input, decoded, decoded.map((value, i) => value - input[i])];
    };

    const limits = () => {
      const largest = (matrix) => matrix.reduce((most, value, i) => (i % (size + 1) ? Math.max(most, Math.abs(value)) : most), 0) || 1;
      const common = Math.max(largest(matrices[0]), largest(matrices[1]));
      return [common, common, largest(matrices[2])];
    };

    const draw = () => {
      const bounds = limits();
      const signed = matrices.slice(0, 2).some((matrix) => matrix.some((value, i) => i % (size + 1) && value < -0.01 * bounds[0]));
      matrices.forEach((matrix, at) => {
        const { canvas, bar, ends } = views[at];
        const isSigned = signed || at === 2;
        const colour = isSigned ? signedColour : magnitudeColour;
        const scaled = (t) => colour(logarithmic.checked ? stretch(t) : t);
        canvas.width = canvas.height = size;
        const context = canvas.getContext("2d");
        const image = context.createImageData(size, size);
        matrix.forEach((value, i) => {
          const diagonal = i % (size + 1) === 0;
          image.data.set([...(diagonal ? WHITE : scaled(Math.max(-1, Math.min(1, value / bounds[at])))), 255], 4 * i);
        });
        context.putImageData(image, 0, 0);
        if (cell) {
          context.fillStyle = "rgba(0, 0, 0, 0.28)";
          context.fillRect(0, cell[0], size, 1);
          context.fillRect(cell[1], 0, 1, size);
        }
        const steps = Array.from({ length: 21 }, (_, i) => scaled(isSigned ? i / 10 - 1 : i / 20));
        bar.style.background = `linear-gradient(to right, ${steps.map((rgb) => `rgb(${rgb})`).join(",")})`;
        const low = isSigned ? -bounds[at] : 0;
        const middle = isSigned ? 0 : logarithmic.checked ? bounds[at] * (10 ** 1.5 - 1) / 999 : bounds[at] / 2;
        [low, middle, bounds[at]].forEach((value, i) => { ends[i].textContent = shown(value); });
      });
      describe();
    };

    const describe = () => {
      if (!cell) return;
      const [row, column] = cell;
      const [input, reconstruction, difference] = matrices.map((matrix) => shown(matrix[row * size + column]));
      output.textContent = `${names[row]} – ${names[column]}: input ${input}, reconstruction ${reconstruction}, difference ${difference}`;
    };

    const later = redrawOnChange(root, draw);
    for (const { canvas } of views) {
      canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const at = (share) => Math.max(0, Math.min(size - 1, Math.floor(share * size)));
        cell = [at((event.clientY - box.top) / box.height), at((event.clientX - box.left) / box.width)];
        later();
      });
      canvas.addEventListener("keydown", (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (!step) return;
        event.preventDefault();
        cell = (cell ?? [0, 0]).map((value, i) => Math.max(0, Math.min(size - 1, value + step[i])));
        later();
      });
    }
    chooser.addEventListener("change", () => { choose(); draw(); });
    logarithmic.addEventListener("change", draw);
    for (const button of root.querySelectorAll("button[data-step]")) {
      button.addEventListener("click", () => {
        const count = chooser.options.length;
        chooser.selectedIndex = (chooser.selectedIndex + Number(button.dataset.step) + count) % count;
        chooser.dispatchEvent(new Event("change"));
      });
    }
    choose();
    draw();
  }
}
