/** Rule books of several nodes on one embedded store, on a clock that the test drives. */

import type { Descriptor, DescriptorDecision } from "../../../src/descriptors/descriptor.js";
import type { DescriptorLimiter, DescriptorOptions } from "../../../src/descriptors/descriptor-limiter.js";
import { createDescriptorLimiter } from "../../../src/descriptors/descriptor-limiter.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../support/simulation.js";
import { entries } from "./rule-examples.js";

export interface BookNode extends SimulatedNode {
  book: DescriptorLimiter;
  /** One descriptor in the domain of the examples. */
  ask(...entry: string[]): Promise<DescriptorDecision>;
  askAll(descriptors: Descriptor[], hits?: number, domain?: string): Promise<DescriptorDecision>;
}

export interface BookWorld {
  simulation: Simulation;
  nodes: BookNode[];
  pass(ms: number): Promise<void>;
}

export const of = (...entry: string[]): Descriptor => ({ entries: entries(...entry) });

export function createBookWorld(settings: Partial<DescriptorOptions>, nodes = 1): BookWorld {
  const simulation = createSimulation(
    [limitedApp({ id: "video", guaranteed: 1, burst: 3 })],
    {},
    { unknownApps: "reject" },
  );
  const made = Array.from({ length: nodes }, (_, i): BookNode => {
    const node = simulation.addNode(`n${i + 1}`);
    const { limiter } = node;
    const book = createDescriptorLimiter({
      limiter,
      clock: simulation.clock,
      domains: [],
      maxValues: 1_000,
      ...settings,
    });
    const askAll: BookNode["askAll"] = (descriptors, hits = 1, domain = "shop") =>
      simulation.during(book.decide(domain, descriptors, hits));
    return Object.assign(node, { book, askAll, ask: (...entry: string[]) => askAll([of(...entry)]) });
  });
  return { simulation, nodes: made, pass: (ms) => simulation.clock.advance(ms) };
}

/** How many of so many requests pass. */
export async function passed(times: number, ask: (i: number) => Promise<DescriptorDecision>): Promise<number> {
  let count = 0;
  for (let i = 0; i < times; i++) if ((await ask(i)).allowed) count++;
  return count;
}
