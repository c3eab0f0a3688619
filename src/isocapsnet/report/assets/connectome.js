/* The shared 3-D viewer: a cortex of glass (WebGL, if available) under edges, regions and names (canvas). */

/* Draws the cortex; its rim is dark, where the surface turns away. Null without WebGL. */
const makeShell = (canvas, vertices, triangles) => {
  const gl = canvas.getContext("webgl", { preserveDrawingBuffer: true, premultipliedAlpha: false, antialias: true });
  if (!gl) return null;
  const compile = (kind, text) => {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    return shader;
  };
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, `
    attribute vec3 position; attribute vec3 normal; uniform mat3 turn; uniform vec2 zoom; varying float facing;
    void main() {
      vec3 p = turn * position; facing = (turn * normal).z;
      gl_Position = vec4(p.xy * zoom, -p.z * 0.001, 1.0 - p.z / 600.0);
    }`));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, `
    precision mediump float; uniform vec3 ink; varying float facing;
    void main() { gl_FragColor = vec4(ink, 0.05 + 0.42 * pow(1.0 - clamp(facing, 0.0, 1.0), 1.8)); }`));
  gl.linkProgram(program);
  gl.useProgram(program);
  const attribute = (name, values) => {
    const at = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(at);
    gl.vertexAttribPointer(at, 3, gl.FLOAT, false, 0, 0);
  };
  attribute("position", vertices);
  attribute("normal", normalsOf(vertices, triangles));
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, triangles, gl.STATIC_DRAW);
  gl.enable(gl.DEPTH_TEST);
  const uniform = (name) => gl.getUniformLocation(program, name);
  return (turn, zoom, ink) => {
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.uniformMatrix3fv(uniform("turn"), false, [0, 1, 2].flatMap((column) => turn.map((row) => row[column])));
    gl.uniform2f(uniform("zoom"), 2 * zoom / canvas.clientWidth, 2 * zoom / canvas.clientHeight);
    gl.uniform3fv(uniform("ink"), ink);
    gl.drawElements(gl.TRIANGLES, triangles.length, gl.UNSIGNED_SHORT, 0);
  };
};

const normalsOf = (vertices, triangles) => {
  const normals = new Float32Array(vertices.length);
  const at = (i) => vertices.subarray(3 * i, 3 * i + 3);
  for (let i = 0; i < triangles.length; i += 3) {
    const corners = [...triangles.subarray(i, i + 3)];
    const [a, b, c] = corners.map(at);
    const [u, v] = [b, c].map((p) => p.map((value, k) => value - a[k]));
    const normal = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    for (const corner of corners) normal.forEach((value, k) => { normals[3 * corner + k] += value; });
  }
  for (let i = 0; i < normals.length; i += 3) {
    const length = Math.hypot(...normals.subarray(i, i + 3)) || 1;
    for (let k = 0; k < 3; k += 1) normals[i + k] /= length;
  }
  return normals;
};

{
  const data = readData("connectome-data");
  if (data) {
    const root = document.getElementById("connectome-viewer");
    const [under, canvas] = root.querySelectorAll("canvas");
    const chooser = root.querySelector("select");
    const output = root.querySelector("output");
    const names = readData("node-names");
    const CENTRE = [0, -18, 10];
    const centred = (packed) => unpackNumbers(packed).map((value, i) => value - CENTRE[i % 3]);
    const [positions, vertices] = [data.coordinates, data.cortex.vertices].map(centred);
    const shell = makeShell(under, vertices, unpackIndices(data.cortex.triangles));
    /* Looking from left, front and above; MNI: x to the right, y to the front, z up. */
    const VIEWS = { start: [-2.35, 0.45], left: [-Math.PI / 2, 0], right: [Math.PI / 2, 0], front: [Math.PI, 0], back: [0, 0], top: [0, Math.PI / 2] };
    let [yaw, pitch] = VIEWS.start;
    let closer = 1;
    let pointed = -1;

    /* Rows: to the right, up, toward the reader. */
    const turnMatrix = () => {
      const [c, s, d, t] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
      return [[c, s, 0], [-s * t, c * t, d], [s * d, -c * d, t]];
    };

    const draw = () => {
      const ratio = devicePixelRatio || 1;
      const [width, height] = [canvas.clientWidth, canvas.clientHeight];
      for (const one of [under, canvas]) [one.width, one.height] = [width * ratio, height * ratio];
      const turn = turnMatrix();
      const zoom = Math.min(width / 195, height / 165) * closer;
      const ink = colourOf("--muted").match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16) / 255);
      if (shell) shell(turn, zoom, ink);
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      const project = (x, y, z) => {
        const [px, py, pz] = turn.map((row) => row[0] * x + row[1] * y + row[2] * z);
        const near = 1 / (1 - pz / 600);
        return { x: width / 2 + px * zoom * near, y: height / 2 - py * zoom * near, depth: pz };
      };
      const points = names.map((_, i) => project(positions[3 * i], positions[3 * i + 1], positions[3 * i + 2]));
      if (!shell) drawDots(context, project);
      drawScene(context, data.scenes[chooser.selectedIndex], points, zoom);
      canvas.points = points;
    };

    const drawDots = (context, project) => {
      context.fillStyle = colourOf("--faint");
      for (let i = 0; i < vertices.length; i += 9) {
        const point = project(vertices[i], vertices[i + 1], vertices[i + 2]);
        context.fillRect(point.x, point.y, 1, 1);
      }
    };

    const drawScene = (context, scene, points, zoom) => {
      const fade = (depth) => Math.max(0.35, Math.min(1, 0.75 + depth / 200));
      const strongest = Math.max(...scene.edges.map((edge) => Math.abs(edge[2])), 1e-12);
      const parts = scene.edges.map(([a, b, weight]) => ({
        depth: (points[a].depth + points[b].depth) / 2,
        paint() {
          context.strokeStyle = weight > 0 ? data.colours.positive : data.colours.negative;
          context.lineWidth = 0.6 + 3.4 * Math.abs(weight) / strongest;
          context.beginPath();
          context.moveTo(points[a].x, points[a].y);
          context.lineTo(points[b].x, points[b].y);
          context.stroke();
        },
      }));
      const ends = new Set(scene.edges.flatMap(([a, b]) => [a, b]));
      points.forEach((point, i) => parts.push({
        depth: point.depth,
        paint() {
          /* Every edge ends at a dot that can be seen. */
          const weight = Math.max(scene.nodes[i], ends.has(i) ? 0.05 : 0);
          context.fillStyle = data.colours.classes[scene.favours[i]] ?? colourOf("--muted");
          context.beginPath();
          context.arc(point.x, point.y, zoom * (weight > 0 ? 1 + 2.6 * Math.sqrt(weight) : 0.55), 0, 2 * Math.PI);
          context.fill();
          if (i === pointed) {
            context.strokeStyle = colourOf("--ink");
            context.lineWidth = 2;
            context.stroke();
          }
        },
      }));
      for (const part of parts.sort((one, other) => one.depth - other.depth)) {
        context.globalAlpha = fade(part.depth);
        part.paint();
      }
      context.globalAlpha = 1;
      const top = scene.top.slice(0, 6);
      if (pointed >= 0 && !top.includes(pointed)) top.push(pointed);
      context.font = `12px ${getComputedStyle(output).fontFamily}`;
      context.lineJoin = "round";
      const written = [];
      for (const i of top) {
        const box = { x: points[i].x + zoom * 4, y: points[i].y + 4, width: context.measureText(names[i]).width };
        const covers = (other) => Math.abs(other.y - box.y) < 13 && box.x < other.x + other.width && other.x < box.x + box.width;
        while (written.some(covers)) box.y += 4;
        written.push(box);
        const { x, y } = box;
        context.strokeStyle = colourOf("--paper");
        context.lineWidth = 4;
        context.strokeText(names[i], x, y);
        context.fillStyle = colourOf("--ink");
        context.fillText(names[i], x, y);
      }
    };

    const describeNode = (scene, node) => {
      const network = data.networks[node] && data.networks[node] !== "no network" ? ` (${data.networks[node]})` : "";
      const share = scene.nodes[node] > 0 ? `${(100 * scene.nodes[node]).toFixed(0)} % of the largest weight` : "";
      const edges = scene.edges.filter(([a, b]) => a === node || b === node).sort((one, other) => Math.abs(other[2]) - Math.abs(one[2]));
      const others = edges.slice(0, 4).map(([a, b, weight]) => `${names[a === node ? b : a]} (${weight > 0 ? "+" : "−"})`);
      const joined = others.length ? `edges to ${others.join(", ")}${edges.length > 4 ? ` and ${edges.length - 4} more` : ""}` : "";
      return `${names[node]}${network}: ${[share, joined].filter(Boolean).join("; ") || "not part of it"}`;
    };
    const describe = () => {
      const scene = data.scenes[chooser.selectedIndex];
      output.textContent = pointed >= 0
        ? describeNode(scene, pointed)
        : `${scene.title}: ${scene.nodes.filter((weight) => weight > 0).length} regions, ${scene.edges.length} edges. ${scene.sentence}`;
    };

    const later = redrawOnChange(root, draw);
    const rotate = (right, down) => {
      yaw -= right;
      pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, pitch + down));
      later();
    };
    const zoomBy = (factor) => { closer = Math.max(0.6, Math.min(4, closer * factor)); later(); };
    const show = (name) => { [yaw, pitch] = VIEWS[name]; closer = 1; later(); };

    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    /* Names are shown where the pointer is, and where a finger taps. */
    const point = (event) => {
      const distance = (point) => Math.hypot(point.x - event.offsetX, point.y - event.offsetY);
      const scene = data.scenes[chooser.selectedIndex];
      const near = (canvas.points ?? []).map((point, i) => [distance(point) - (scene.nodes[i] > 0 ? 6 : 0), i]).sort((a, b) => a[0] - b[0])[0];
      const node = near && near[0] < 8 ? near[1] : -1;
      if (node !== pointed) { pointed = node; describe(); later(); }
    };
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) rotate(event.movementX * 0.01, event.movementY * 0.01);
      else point(event);
    });
    canvas.addEventListener("click", point);
    canvas.addEventListener("keydown", (event) => {
      const act = {
        ArrowLeft: () => rotate(-0.12, 0), ArrowRight: () => rotate(0.12, 0), ArrowUp: () => rotate(0, -0.12), ArrowDown: () => rotate(0, 0.12),
        "+": () => zoomBy(1.15), "-": () => zoomBy(1 / 1.15), Home: () => show("start"),
      }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    for (const button of root.querySelectorAll("button[data-view]")) button.addEventListener("click", () => show(button.dataset.view));
    for (const button of root.querySelectorAll("button[data-zoom]")) button.addEventListener("click", () => zoomBy(Number(button.dataset.zoom)));

    const sceneButtons = [...document.querySelectorAll("button[data-scene]")];
    const choose = () => {
      pointed = -1;
      sceneButtons.forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.scene) === chooser.selectedIndex)));
      describe();
      later();
    };
    chooser.addEventListener("change", choose);
    for (const button of sceneButtons) {
      button.addEventListener("click", () => {
        chooser.selectedIndex = Number(button.dataset.scene);
        choose();
        root.scrollIntoView({ block: "nearest" });
        canvas.focus({ preventScroll: true });
      });
    }
    choose();
  }
}
