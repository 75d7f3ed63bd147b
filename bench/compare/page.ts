/** The part of docs/reference/performance.md that `make compare` writes. */
import { loss, MEASURES, type Measure, type Measured } from "./measures.js";
import { LIMIT, MOST_CONNECTIONS, NODES, USER_RATE } from "./system.js";

/** Differences below this are noise. */
const NOISE = 0.05;

export interface Machine {
  date: string;
  text: string;
  /** The load average when the comparison started. */
  load: number;
}

export function comparePage(all: Measured[], { date, text, load }: Machine, seconds: number): string {
  const cells = (measure: Measure) => all.map((one) => cell(measure, one));
  const rows = MEASURES.map(
    (measure) => `| [${measure.title}](#${anchor(measure.title)}) | ${cells(measure).join(" | ")} |`,
  );
  return `Written by \`make compare\` on ${date} in ${Math.round(seconds / 60)} minutes, on ${text}, load average
${load.toFixed(1)} at the start. All systems share the cores with the load generator: compare columns, not machines. ${NODES} nodes are to share ${LIMIT.rate} requests/s with a burst of ${LIMIT.burst}; each user may send ${USER_RATE} requests/s, where a second
limit is possible; connections: ${MOST_CONNECTIONS}.

### What Tollgate does worse

${worse(all)}

### All measures

| | ${all.map(({ title }) => title).join(" | ")} |
| --- | ${all.map(() => "---").join(" | ")} |
| version | ${all.map(({ version }) => version).join(" | ")} |
${rows.join("\n")}

${MEASURES.map((measure, i) => section(measure, i)).join("\n")}
### Configurations

${all.map(configuration).join("\n")}`;
}

/** The measures that the README shows. */
const IN_README = [
  "Worst window",
  "Utilisation under skew",
  "Store calls per request",
  "CPU per request",
  "Store killed: admitted",
  "Refused requests use no quota",
];

export function readmeTable(all: Measured[]): string {
  const shown = MEASURES.filter(({ title }) => IN_README.includes(title));
  const rows = shown.map((measure) => `| ${measure.title} | ${all.map((one) => cell(measure, one)).join(" | ")} |`);
  return `| | ${all.map(({ title }) => title).join(" | ")} |\n| --- | ${all.map(() => "---").join(" | ")} |\n${rows.join("\n")}`;
}

export const anchor = (title: string) =>
  title
    .toLowerCase()
    .replace(/[^a-z ]/g, "")
    .replaceAll(" ", "-");

function cell(measure: Measure, one: Measured): string {
  const value = measure.of(one);
  return value === undefined ? measure.none : measure.text(value);
}

function section({ title, explanation }: Measure, i: number): string {
  return `#### ${title}

${explanation[0]!.toUpperCase()}${explanation.slice(1)}.

![${title}, by system](../images/compare-${i + 1}.svg)
`;
}

function configuration({ title, source, configuration: text }: Measured): string {
  return `#### Configuration of ${title}

From: ${source}.

\`\`\`\`text
${text}
\`\`\`\`
`;
}

/** One line for each measure in which a peer is better than a plane of ours. */
function worse(all: Measured[]): string {
  const lines = MEASURES.flatMap((measure) => {
    const known = all.flatMap((one) => {
      const value = measure.of(one);
      return value === undefined ? [] : [{ one, value, lost: loss(measure, value) }];
    });
    return known
      .filter(({ one }) => one.isOurs)
      .flatMap(({ one, value, lost }) => {
        const better = known.filter((peer) => !peer.one.isOurs && peer.lost + NOISE < lost);
        if (better.length === 0) return [];
        const peers = better.map((peer) => `${peer.one.title} ${measure.text(peer.value)}`).join(", ");
        return [`- **${measure.title}**: ${one.title} ${measure.text(value)}; better: ${peers}.`];
      });
  });
  return lines.length === 0 ? "Nothing that was measured here." : lines.join("\n");
}
