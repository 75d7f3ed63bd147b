/** The fields of a hash in little memory: there is one hash per app, and one field per app and node. */
import { numberText } from "./numbers.js";

type Stored = string | number;

/** A hash with more fields is a map. */
const MOST_LISTED = 16;

/** Lists of names, as JSON. Hashes with the same fields share one. */
const sharedNames = new Map<string, readonly string[]>();
/** Scripts have few kinds of hashes; this bounds the memory of any other use. */
const MOST_SHARED = 1_000;

/** Reads and writes text. Numbers are held as numbers, which need no memory of their own when they change. */
export class Fields {
  private names: readonly string[] = [];
  /** In the order of the names. */
  private values: Stored[] = [];
  /** Instead of both lists. */
  private map: Map<string, Stored> | undefined;

  get size(): number {
    return this.map?.size ?? this.names.length;
  }

  get(name: string): string | undefined {
    const value = this.map === undefined ? this.values[this.names.indexOf(name)] : this.map.get(name);
    return value === undefined ? undefined : textOf(value);
  }

  set(name: string, text: string): void {
    const value = storedFrom(text);
    if (this.map !== undefined) {
      this.map.set(this.map.has(name) ? name : flat(name), value);
      return;
    }
    const place = this.names.indexOf(name);
    if (place >= 0) this.values[place] = value;
    else this.setAll([...this.entries(), [name, value]]);
  }

  delete(name: string): boolean {
    if (this.map !== undefined) return this.map.delete(name);
    const place = this.names.indexOf(name);
    if (place < 0) return false;
    this.setAll([...this.entries()].filter((_, i) => i !== place));
    return true;
  }

  /** Names and values in turn. */
  list(): string[] {
    return [...this.entries()].flatMap(([name, value]) => [name, textOf(value)]);
  }

  private entries(): Iterable<[string, Stored]> {
    return this.map ?? this.names.map((name, i): [string, Stored] => [name, this.values[i]!]);
  }

  private setAll(entries: [string, Stored][]): void {
    if (entries.length > MOST_LISTED) {
      this.map = new Map(entries.map(([name, value]) => [flat(name), value]));
      this.names = [];
      this.values = [];
    } else {
      this.names = shared(entries.map(([name]) => name));
      this.values = entries.map(([, value]) => value);
    }
  }
}

function shared(names: string[]): readonly string[] {
  const text = JSON.stringify(names);
  const known = sharedNames.get(text);
  if (known !== undefined) return known;
  if (sharedNames.size < MOST_SHARED) sharedNames.set(text, names);
  return names;
}

/** Only if the number has exactly this text. */
function storedFrom(text: string): Stored {
  const value = Number(text);
  return numberText(value) === text ? value : text;
}

function textOf(value: Stored): string {
  return typeof value === "number" ? numberText(value) : value;
}

/** A copy: a name that was joined of several parts would keep all of them in memory. */
function flat(name: string): string {
  return JSON.parse(JSON.stringify(name)) as string;
}
