/** Seeds Lua's random numbers. Workers start at the same moment: the time alone would give all of them the same seed. */
import { luaMath, luaString } from "./library.js";
import { processId } from "./node-name.js";

interface File {
  read(bytes: number): string;
  close(): void;
}

declare const _G: { readonly io: { open(this: void, path: string, mode: "rb"): File | undefined } };

export function seedRandom(): void {
  const source = _G.io.open("/dev/urandom", "rb");
  let seed = processId();
  if (source !== undefined) {
    const bytes = source.read(4);
    source.close();
    for (let i = 1; i <= 4; i++) seed = seed * 256 + luaString.byte(bytes, i);
  }
  luaMath.randomseed(seed);
}
