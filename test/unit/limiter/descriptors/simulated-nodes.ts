/** Nodes with descriptor limits on one embedded store, with a simulated clock. */

import type { Descriptor, DescriptorDecision } from "../../../../src/limiter/descriptors/descriptor.js";
import type { DescriptorLimiter, DescriptorOptions } from "../../../../src/limiter/descriptors/descriptor-limiter.js";
import { createDescriptorLimiter } from "../../../../src/limiter/descriptors/descriptor-limiter.js";
import { createSimulation, limitedApp, type SimulatedNode, type Simulation } from "../../../support/simulation.js";
import { entries } from "./rule-examples.js";

export interface DescriptorNode extends SimulatedNode {
  descriptors: DescriptorLimiter;
  /** One descriptor in the domain of the examples. */
  ask(...entry: string[]): Promise<DescriptorDecision>;
  askAll(descriptors: Descriptor[], hits?: number, domain?: string): Promise<DescriptorDecision>;
}

export interface SimulatedNodes {
  simulation: Simulation;
  nodes: DescriptorNode[];
  pass(ms: number): Promise<void>;
}

export const of = (...entry: string[]): Descriptor => ({ entries: entries(...entry) });

export function createSimulatedNodes(settings: Partial<DescriptorOptions>, nodes = 1): SimulatedNodes {
  const simulation = createSimulation(
    [
      limitedApp({ id: "video", guaranteed: 1, burst: 3 }),
      limitedApp({ id: "trial", guaranteed: 1, burst: 3, dryRun: true }),
    ],
    {},
    { unknownApps: "reject" },
  );
  const made = Array.from({ length: nodes }, (_, i): DescriptorNode => {
    const node = simulation.addNode(`n${i + 1}`);
    const { limiter } = node;
    const descriptors = createDescriptorLimiter({
      limiter,
      clock: simulation.clock,
      domains: [],
      maxValues: 1_000,
      ...settings,
    });
    const askAll: DescriptorNode["askAll"] = (asked, hits = 1, domain = "shop") =>
      simulation.during(descriptors.decide(domain, asked, hits));
    return Object.assign(node, { descriptors, askAll, ask: (...entry: string[]) => askAll([of(...entry)]) });
  });
  return { simulation, nodes: made, pass: (ms) => simulation.clock.advance(ms) };
}

/** Makes the requests one after the other and counts the allowed ones. */
export async function countAllowed(times: number, ask: (i: number) => Promise<DescriptorDecision>): Promise<number> {
  let count = 0;
  for (let i = 0; i < times; i++) if ((await ask(i)).allowed) count++;
  return count;
}
