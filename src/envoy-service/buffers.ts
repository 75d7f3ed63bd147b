/** Limits the bytes of incomplete messages and bodies: for all connections together, and for each of them. */

/** What one connection may buffer. */
export interface BufferShare {
  /** Reserves memory for a chunk. False: the limit is reached and nothing was reserved. */
  take(chunkBytes: number): boolean;
  /** Returns the memory of this many chunks with this many bytes in total. */
  giveBack(chunks: number, bytes: number): void;
}

export interface BufferLimits {
  /** For all connections together. */
  maxBufferedBytes: number;
  /** One message always fits into a connection's share. */
  maxMessageBytes: number;
}

/** A chunk of one byte takes up this much more. */
const CHUNK_OVERHEAD = 256;
/** One connection may use this part of the total, so that it does not block all others. */
const CONNECTION_PART = 1 / 4;
/** Chunks are at most as large as a frame, so this covers the overhead of a message in full frames. */
const MESSAGE_OVERHEAD = 1.25;

export function createBuffers(limits: () => BufferLimits) {
  let total = 0;
  return {
    forConnection(): BufferShare {
      let used = 0;
      return {
        take(chunkBytes) {
          const bytes = chunkBytes + CHUNK_OVERHEAD;
          const { maxBufferedBytes, maxMessageBytes } = limits();
          const share = Math.max(maxBufferedBytes * CONNECTION_PART, maxMessageBytes * MESSAGE_OVERHEAD);
          if (total + bytes > maxBufferedBytes || used + bytes > share) return false;
          total += bytes;
          used += bytes;
          return true;
        },
        giveBack(chunks, bytes) {
          const returned = bytes + chunks * CHUNK_OVERHEAD;
          total -= returned;
          used -= returned;
        },
      };
    },
  };
}

/** Collects the chunks of one message or body. */
export class ChunkList {
  bytes = 0;
  private chunks: Buffer[] = [];

  constructor(private readonly share: BufferShare) {}

  /** False: the limit is reached and the chunk was not added. */
  add(chunk: Buffer): boolean {
    if (!this.share.take(chunk.length)) return false;
    this.chunks.push(chunk);
    this.bytes += chunk.length;
    return true;
  }

  /** All bytes, joined once: joining on every chunk would be quadratic. The list is empty afterwards. */
  join(): Buffer {
    const { chunks, bytes } = this;
    const joined = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes);
    this.clear();
    return joined;
  }

  clear(): void {
    if (this.chunks.length === 0) return;
    this.share.giveBack(this.chunks.length, this.bytes);
    this.chunks = [];
    this.bytes = 0;
  }
}
