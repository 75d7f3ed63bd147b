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
  /** Whether the viewer may still watch; asked before each message. */
  isAllowed(): boolean;
  /** Sent first. */
  first?: unknown;
}

export type Feed = ReturnType<typeof createFeed>;

const MOST_VIEWERS = 100;
/** Views have parameters; each different one is collected separately. */
const MOST_VIEWS = 32;

interface Viewer {
  view: string;
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
    /** Undefined if there are too many viewers. */
    watch(options: ViewerOptions): AsyncGenerator<string> | undefined {
      const views = new Set([...viewers].map(({ view }) => view)).add(options.view);
      if (viewers.size >= MOST_VIEWERS || views.size > MOST_VIEWS) return undefined;
      return events({ view: options.view, message: undefined, wake: () => {} }, options);
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
