// A packet: the newest of the chosen source, or one of an event of a run folder.
import { drawBytes } from "./bytes.js";
import { at, make, put, rows } from "./dom.js";
import { offerFields } from "./signal.js";
import { ask, store } from "./store.js";

const path = () => (store.mode === "live"
  ? store.chosen === null ? null : `/packet?source=${store.chosen}`
  : store.packet === null ? null : `/event?number=${store.event}&packet=${store.packet}`);

export async function drawPacket() {
  const wanted = path();
  at("packet-panel").hidden = wanted === null;
  if (!wanted || document.hidden) return;
  const answer = await ask(wanted);
  if (!answer || wanted !== path()) return;
  if (!answer.ok) return put(at("packet-of"), answer.body.error);
  const packet = answer.body;
  store.decoded = packet;
  const sequence = packet.sequence === null ? "" : `, number ${packet.sequence}`;
  put(at("packet-of"), `${packet.source}: ${packet.type}${sequence}, ${packet.length} bytes`);
  const lines = rows(at("fields").tBodies[0], packet.fields.length, 3, (cell) => cell === 1);
  packet.fields.forEach((field, index) => {
    const [name, value, unit] = lines[index].cells;
    lines[index].title = field.help;
    put(name, field.name);
    put(value, `${field.value ?? "absent"}`);
    put(unit, field.unit ?? "");
  });
  drawBytes(packet);
  offerFields(packet);
}

/** Lists the packets of the chosen event of a run folder. */
export async function drawPackets(choose) {
  const answer = await ask(`/event?number=${store.event}`);
  if (!answer?.ok) return;
  const list = at("packets");
  list.replaceChildren(...answer.body.packets.map(({ packet, label, sequence, bytes }) => {
    const button = make("button", { type: "button" }, `${label}${sequence === null ? "" : ` #${sequence}`}, ${bytes} B`);
    button.addEventListener("click", () => choose(packet));
    return button;
  }));
  if (answer.body.all > answer.body.packets.length) {
    list.append(make("span", { class: "quiet" }, `and ${answer.body.all - answer.body.packets.length} more`));
  }
}
