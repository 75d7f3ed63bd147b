/** The hash tags of a cluster's shards, chosen so that Redis Cluster spreads them evenly over its primaries. */

const SLOTS = 16384;

/**
 * One tag per shard: `<cluster>/<shard>`, with a suffix if there are several. Primaries usually own contiguous ranges of
 * slots; names alone would leave some primaries with twice as many shards as others. So the suffix is the first number that
 * puts the shard into the middle of its own part of the slots.
 */
export function shardTags(cluster: string, shards: number): string[] {
  if (shards === 1) return [`${cluster}/0`];
  const width = SLOTS / shards;
  return Array.from({ length: shards }, (_, shard) => {
    for (let suffix = 0; ; suffix++) {
      const tag = `${cluster}/${shard}.${suffix}`;
      if (Math.abs(slotOf(tag) - (shard + 0.5) * width) <= width / 16) return tag;
    }
  });
}

/** The slot of a hash tag in Redis Cluster: CRC16 (XMODEM) modulo the number of slots. */
function slotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc % SLOTS;
}
