/** Parses a metrics page. */

export interface ReadSample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export interface ReadPage {
  /** By metric name. */
  types: Map<string, string>;
  samples: ReadSample[];
  /** The only sample with this name and at least these labels, if there is one. */
  value(name: string, labels?: Record<string, string>): number | undefined;
  /** The sum of all samples with this name and at least these labels. */
  sum(name: string, labels?: Record<string, string>): number;
}

export function readPage(text: string): ReadPage {
  const types = new Map<string, string>();
  const samples: ReadSample[] = [];
  for (const line of text.split("\n")) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line);
    if (type !== null) types.set(type[1]!, type[2]!);
    if (line === "" || line.startsWith("#")) continue;
    const sample = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (sample === null) throw new Error(`not a metrics line: ${line}`);
    const labels = [...(sample[2] ?? "").matchAll(/(\w+)="([^"]*)"/g)].map(
      ([, name, value]) => [name!, value!] as const,
    );
    samples.push({ name: sample[1]!, labels: Object.fromEntries(labels), value: Number(sample[3]) });
  }
  const find = (name: string, wanted: Record<string, string>) =>
    samples.filter(
      (sample) =>
        sample.name === name && Object.entries(wanted).every(([label, value]) => sample.labels[label] === value),
    );
  return {
    types,
    samples,
    value(name, labels = {}) {
      const found = find(name, labels);
      if (found.length > 1) throw new Error(`${found.length} samples of ${name} ${JSON.stringify(labels)}`);
      return found[0]?.value;
    },
    sum: (name, labels = {}) => find(name, labels).reduce((sum, { value }) => sum + value, 0),
  };
}
