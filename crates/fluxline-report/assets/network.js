// Shows the states of the networks on a page: by a slider, or one after the other.
(function () {
  const STEPS = 16, FRAME_MS = 500;
  const short = (value, digits) => String(Number(value.toPrecision(digits)));
  const networks = JSON.parse(document.getElementById("networks").textContent);
  document.querySelectorAll("figure.net").forEach(function (figure, at) {
    const data = networks[at];
    if (!data) return;
    const links = [...figure.querySelectorAll("g.link")];
    const nodes = [...figure.querySelectorAll("g.node")];
    const readout = figure.querySelector(".readout");
    const slider = figure.querySelector(".slider input");

    function show(state) {
      const dead = new Set(state.dead), circle = new Set(state.circle);
      links.forEach(function (link, index) {
        const value = state.values[index];
        const known = value !== null && value !== undefined;
        const step = data.high > 0 ? Math.floor(value / data.high * STEPS) : 0;
        const path = link.classList.contains("path") ? " path" : "";
        link.setAttribute("class", "link " + (known ? "m" + Math.min(step, STEPS - 1) : "none")
          + path + (dead.has(index) ? " dead" : "") + (circle.has(index) ? " circle" : ""));
        link.querySelector("title").textContent =
          data.links[index] + ": " + (known ? short(value, 3) + " " + data.unit : "–")
          + (dead.has(index) ? " (dead)" : "");
        const number = link.querySelector(".number");
        if (number) number.textContent = known && value > 0 ? short(value, 2) : "";
      });
      const gone = new Set(state.dead_nodes);
      nodes.forEach((node, index) => node.classList.toggle("dead", gone.has(index)));
      figure.querySelector(".state").textContent = state.note;
      if (slider) figure.querySelector(".slider output").textContent = state.label;
    }

    const tell = function (event) {
      const group = event.target.closest("g.link, g.node");
      readout.textContent = group ? group.querySelector("title").textContent : "";
    };
    figure.querySelector("svg").addEventListener("pointerover", tell);
    figure.querySelector("svg").addEventListener("click", tell);
    if (!slider) return;
    slider.addEventListener("input", () => show(data.states[slider.value]));

    const play = figure.querySelector(".slider button");
    let timer = null;
    function stop() {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
    }
    play.addEventListener("click", function () {
      if (timer !== null) return stop();
      play.textContent = "Stop";
      if (Number(slider.value) === data.states.length - 1) slider.value = -1;
      timer = setInterval(function () {
        slider.value = Number(slider.value) + 1;
        show(data.states[slider.value]);
        if (Number(slider.value) >= data.states.length - 1) stop();
      }, FRAME_MS);
    });
  });
}());
