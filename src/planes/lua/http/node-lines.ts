/** The lines about this node in sync messages. */
import { summaryOf } from "../../../engine/node.js";
import { nodeText } from "../counts.js";
import { nowMs, running } from "../host.js";
import { luaString } from "../library.js";
import { firstNode, worker } from "./state.js";

export function nodeLines(): string {
  const { fields, lines } = running.sync.nodeDetails();
  const memory = luaString.format(" memory_free_bytes=%.0f", worker.dict.free_space());
  const { configVersion: serviceVersion } = firstNode();
  const state = { clock: nowMs(), serviceVersion, ownVersion: worker.options.configVersion };
  return `${nodeText(summaryOf(firstNode()), state)}${memory}${fields}\n${lines}`;
}
