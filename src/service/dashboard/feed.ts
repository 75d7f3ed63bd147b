/** Live data for viewers: one collection per second and view, shared by all viewers of it; none without viewers. */
import type { Clock } from "../../shared/clock.js";

export interface FeedOptions {
  clock: Clock;
  /** The data of a view. */
  collect(view: string): Promise<unknown>;
  intervalMs?: number;
}

export interface ViewerOptions {
  view: string;
  /** Who watches: the token. */
  owner?: string;
  /** Operators have a reserve that viewers cannot use. */
  isOperator?: boolean;
  /** Whether the viewer may still watch; asked before each message. */
  isAllowed(): boolean;
  /** Sent first. */
  first?: unknown;
}

/** Feeds of all, of those who may only read together, and of one token. */
const MOST_FEEDS = { all: 100, readers: 60, reader: 20, operator: 40 };
/** Views have parameters; each different one is collected separately. */
const MOST_VIEWS = { all: 32, readers: 16, reader: 8, operator: 32 };
/** A viewer that has not taken a message for this long is gone. */
const STALE_MS = 30_000;

interface Viewer {
  view: string;
  owner: string;
  isOperator: boolean;
  /** When the oldest message that waits was published. */
  waitsSince: number;
  gone: AbortController;
  /** The newest message that was not sent yet. An older one is dropped: a slow viewer needs no more memory. */
  message: string | undefined;
  wake: () => void;
}

export function createFeed({ clock, collect, intervalMs = 1_000 }: FeedOptions) {
  const viewers = new Set<Viewer>();
  let cancel: (() => void) | undefined;
  let isCollecting = false;
  let isClosed = false;

  async function tick(): Promise<void> {
    cancel = undefined;
    isCollecting = true;
    const started = clock.now();
    const views = new Set([...viewers].map(({ view }) => view));
    await Promise.all([...views].map(publish));
    isCollecting = false;
    schedule(Math.max(intervalMs - (clock.now() - started), intervalMs / 4));
  }

  async function publish(view: string): Promise<void> {
    const message = await collect(view).then(
      (data) => event("state", data),
      (error: unknown) => event("failed", { reason: error instanceof Error ? error.message : String(error) }),
    );
    for (const viewer of viewers) {
      if (viewer.view !== view) continue;
      if (viewer.message === undefined) viewer.waitsSince = clock.now();
      else if (clock.now() - viewer.waitsSince >= STALE_MS) viewer.gone.abort();
      viewer.message = message;
      viewer.wake();
    }
  }

  function schedule(ms: number): void {
    if (viewers.size === 0 || cancel !== undefined || isCollecting || isClosed) return;
    cancel = clock.after(ms, () => void tick());
  }

  /** Server-sent events. The connection takes the next one when it has sent the last one. */
  async function* events(viewer: Viewer, { isAllowed, first }: ViewerOptions): AsyncGenerator<string> {
    // Only when the connection takes the first message: a generator that never starts also never ends.
    viewers.add(viewer);
    // The first message at once.
    cancel?.();
    cancel = undefined;
    schedule(0);
    try {
      yield first === undefined ? ":\n\n" : event("history", first);
      while (!isClosed && isAllowed()) {
        const { message } = viewer;
        viewer.message = undefined;
        if (message !== undefined) yield message;
        else {
          await new Promise<void>((resolve) => {
            viewer.wake = resolve;
          });
        }
      }
      if (!isClosed) yield event("ended", {});
    } finally {
      viewers.delete(viewer);
    }
  }

  return {
    /** Undefined if there are too many viewers. `gone`: the viewer takes no messages any more. */
    watch(options: ViewerOptions): { events: AsyncGenerator<string>; gone: AbortSignal } | undefined {
      const { view, owner = "", isOperator = false } = options;
      const readers = [...viewers].filter((one) => !one.isOperator);
      const own = [...viewers].filter((one) => one.owner === owner && one.isOperator === isOperator);
      const fits = (open: Viewer[], kind: keyof typeof MOST_FEEDS) =>
        open.length < MOST_FEEDS[kind] && new Set(open.map((one) => one.view)).add(view).size <= MOST_VIEWS[kind];
      if (!fits([...viewers], "all") || !fits(own, isOperator ? "operator" : "reader")) return undefined;
      if (!isOperator && !fits(readers, "readers")) return undefined;
      const gone = new AbortController();
      const viewer = { view, owner, isOperator, waitsSince: 0, gone, message: undefined, wake: () => {} };
      return { events: events(viewer, options), gone: gone.signal };
    },
    viewers: () => viewers.size,
    close(): void {
      isClosed = true;
      cancel?.();
      for (const { wake } of viewers) wake();
    },
  };
}

function event(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
