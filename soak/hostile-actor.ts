/** What a hostile actor of a soak test is, and what it may cause. */
import type { World } from "./world.js";

/** What a hostile actor may cause. None may crash a process, or make memory, files or logs grow without bounds. */
export interface HostileEffects {
  /** It fills connections of routes with WebSockets: other clients may wait, but still get some. */
  hoardsSockets?: boolean;
}

export interface Hostile {
  name: string;
  effects: HostileEffects;
  /** Acts until the time is over, and then leaves nothing behind. Its own failures are not errors. */
  play(context: HostileContext): Promise<void>;
}

export interface HostileContext {
  world: World;
  random(): number;
  isOver(): boolean;
}
