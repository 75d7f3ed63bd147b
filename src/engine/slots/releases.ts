/** Connections that have ended, until the store has acknowledged their release. */

/** Names its proxy, because a process also releases slots of others: of workers that died, or of Envoys. */
export interface EndedSlot {
  proxy: string;
  connection: string;
  pod: string;
  app: string;
  /** As it was when the slot was acquired; absent or empty if it was unknown. */
  client?: string | undefined;
}

export interface ReleaseQueue {
  waiting: EndedSlot[];
  /** In the call that is not answered. */
  sending: EndedSlot[];
  /** The longest that the queue may become. */
  most: number;
}

const MAX_RELEASES_WAITING = 100000;
/** One call keeps Redis busy for about a millisecond. */
const RELEASES_PER_CALL = 250;

export function newReleaseQueue(most = MAX_RELEASES_WAITING): ReleaseQueue {
  return { waiting: [], sending: [], most };
}

/** When the queue is full, the oldest tenth is dropped: these leases expire first. */
export function queueRelease(queue: ReleaseQueue, ended: EndedSlot): void {
  queue.waiting.push(ended);
  if (queue.waiting.length <= queue.most) return;
  const rest: EndedSlot[] = [];
  for (let i = Math.ceil(queue.most / 10); i < queue.waiting.length; i++) rest.push(queue.waiting[i]!);
  queue.waiting = rest;
}

/** Releases that are not acknowledged. */
export function releasesLeft(queue: ReleaseQueue): number {
  return queue.waiting.length + queue.sending.length;
}

/** The oldest entries of one proxy, for one call; undefined if there are none or a call is not answered. */
export function takeReleases(queue: ReleaseQueue): EndedSlot[] | undefined {
  const first = queue.waiting[0];
  if (first === undefined || queue.sending.length > 0) return undefined;
  const rest: EndedSlot[] = [];
  for (const ended of queue.waiting) {
    if (ended.proxy === first.proxy && queue.sending.length < RELEASES_PER_CALL) queue.sending.push(ended);
    else rest.push(ended);
  }
  queue.waiting = rest;
  return queue.sending;
}

/** The call of `takeReleases` was answered. Entries that were not acknowledged are sent again first. */
export function releasesAnswered(queue: ReleaseQueue, acknowledged: boolean): void {
  const { sending, waiting } = queue;
  queue.sending = [];
  if (acknowledged) return;
  queue.waiting = [];
  for (const ended of sending) queueRelease(queue, ended);
  for (const ended of waiting) queueRelease(queue, ended);
}
