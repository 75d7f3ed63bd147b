/** Replays a log against one or more configurations in one pass, with bounded memory. */
import type { Config } from "../config/schema.js";
import type { LoggedRequest } from "./logged-request.js";
import { type ReadLogOptions, readLog } from "./read-log.js";
import { createWorld, type World } from "./world.js";

export interface ReplayOptions extends Omit<ReadLogOptions, "hasLimits"> {
  configs: Config[];
  nodes: number;
}

export type Replay = Awaited<ReturnType<typeof replay>>;

export async function replay({ configs, nodes, ...log }: ReplayOptions) {
  let worlds: World[] = [];

  function submit(request: LoggedRequest): Promise<unknown> | undefined {
    if (worlds.length === 0) worlds = configs.map((config) => createWorld({ config, nodes, startMs: request.at }));
    if (worlds.length === 1) return worlds[0]!.submit(request);
    const pending = worlds.map((world) => world.submit(request)).filter((one) => one !== undefined);
    return pending.length > 0 ? Promise.all(pending) : undefined;
  }

  const result = await readLog({ ...log, hasLimits: configs.some(needsAttributes) }, submit);
  /** In the order of the configurations. */
  const outcomes = [];
  for (const { finish, tally } of worlds) {
    const apps = await finish();
    outcomes.push({
      apps,
      limits: tally.limits(),
      timeline: { startMs: tally.timeline.startMs, stepMs: tally.timeline.stepMs() },
    });
  }
  return { ...result, outcomes };
}

/** Whether decisions depend on more than app, method and sizes. */
export function needsAttributes({ limits, routes }: Config): boolean {
  return limits.length > 0 || routes.some(({ profile }) => profile !== undefined);
}
