/** The hash slots of Redis Cluster. */

export const HASH_SLOTS = 16_384;

/** The slot of a hash tag: CRC16 (XMODEM) modulo the number of slots. */
export function hashSlotOf(tag: string): number {
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc % HASH_SLOTS;
}
