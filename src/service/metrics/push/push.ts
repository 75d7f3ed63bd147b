/** Pushes the metrics of the service to StatsD and Graphite at an interval, one push per destination at a time. */

import type { PushOptions } from "../../../config/options/service.js";
import type { PushDestination } from "../../../config/push-url.js";
import type { Clock } from "../../../shared/clock.js";
import type { Log } from "../../../shared/log.js";
import type { Exporter } from "../labels.js";
import type { Series } from "../series.js";
import { createSampler, type Sample } from "./samples.js";
import { pushTo } from "./senders.js";

export interface CreatePushOptions extends PushOptions {
  /** The current values. */
  collect(): Promise<Series>;
  failed(exporter: Exporter): void;
  log: Log;
  clock: Clock;
}

/** A destination that takes longer misses the next push. */
const TIMEOUT_MS = 5_000;

export function createPush({ collect, failed, log, clock, ...first }: CreatePushOptions) {
  let options: PushOptions = first;
  const sample = createSampler();
  const busy = new Set<PushDestination>();
  const unavailable = new Set<string>();
  let running = false;
  let closed = false;
  let stopTimer = schedule();

  function schedule(): () => void {
    return options.destinations.length === 0 ? () => {} : clock.after(options.intervalMs, () => void tick());
  }

  async function tick(): Promise<void> {
    // A collection that takes longer than the interval delays the next one.
    if (running) return;
    running = true;
    try {
      const samples = sample(await collect());
      for (const destination of options.destinations) if (!busy.has(destination)) void send(destination, samples);
    } catch (error) {
      log.warn({ err: error }, "metrics could not be collected for a push");
    } finally {
      running = false;
      if (!closed) stopTimer = schedule();
    }
  }

  async function send(destination: PushDestination, samples: readonly Sample[]): Promise<void> {
    const { kind, host, port } = destination;
    const name = `${kind}://${host}:${port}`;
    busy.add(destination);
    try {
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      await pushTo(destination, { samples, unixSeconds: Math.floor(Date.now() / 1000), signal });
      if (unavailable.delete(name)) log.info({ destination: name }, "metrics are pushed again");
    } catch (error) {
      failed(kind);
      if (!unavailable.has(name)) log.warn({ destination: name, err: error }, "metrics could not be pushed");
      unavailable.add(name);
    } finally {
      busy.delete(destination);
    }
  }

  return {
    reconfigure(changed: PushOptions): void {
      options = changed;
      stopTimer();
      if (!closed && !running) stopTimer = schedule();
    },
    close(): void {
      closed = true;
      stopTimer();
    },
  };
}
