/** Connections that have ended, until the store has acknowledged their release. */

/** Names its proxy, because a process also releases the slots of workers that died, each under that worker's name. */
export interface EndedSlot {
  proxy: string;
  connection: string;
  pod: string;
  app: string;
}

export interface ReleaseQueue {
  waiting: EndedSlot[];
  /** The longest that the queue may become. */
  most: number;
  /** Entries that have left the queue so far. */
  removed: number;
  /** Of these, dropped because the queue was full: their leases expire. */
  forgotten: number;
}

export interface ReleaseBatch {
  proxy: string;
  slots: EndedSlot[];
  /** `ReleaseQueue.removed` when the batch was made. */
  removedBefore: number;
}

/** One call keeps Redis busy for about a millisecond. */
const RELEASES_PER_CALL = 250;

export function newReleaseQueue(most: number): ReleaseQueue {
  return { waiting: [], most, removed: 0, forgotten: 0 };
}

/** When the queue is full, the oldest tenth is dropped: these leases expire first. */
export function queueRelease(queue: ReleaseQueue, ended: EndedSlot): void {
  queue.waiting.push(ended);
  if (queue.waiting.length <= queue.most) return;
  const count = Math.ceil(queue.most / 10);
  removeFirst(queue, count);
  queue.forgotten = queue.forgotten + count;
}

function removeFirst(queue: ReleaseQueue, count: number): void {
  const rest: EndedSlot[] = [];
  for (let i = count; i < queue.waiting.length; i++) rest.push(queue.waiting[i]!);
  queue.removed = queue.removed + queue.waiting.length - rest.length;
  queue.waiting = rest;
}

/** The oldest entries of one proxy. They stay in the queue until `releasesAcknowledged`. The queue must not be empty. */
export function nextReleases(queue: ReleaseQueue): ReleaseBatch {
  const { waiting } = queue;
  const slots: EndedSlot[] = [];
  const { proxy } = waiting[0]!;
  for (let i = 0; i < waiting.length && slots.length < RELEASES_PER_CALL && waiting[i]!.proxy === proxy; i++) {
    slots.push(waiting[i]!);
  }
  return { proxy, slots, removedBefore: queue.removed };
}

export function releasesAcknowledged(queue: ReleaseQueue, batch: ReleaseBatch): void {
  removeFirst(queue, Math.max(batch.removedBefore + batch.slots.length - queue.removed, 0));
}
