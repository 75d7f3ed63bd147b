/** Serialises plain data as YAML. An entry whose key begins with `#` becomes a comment on the next entry. */
import { Document, isMap, isScalar, isSeq, type Node, Pair, Scalar, YAMLMap, YAMLSeq } from "yaml";

export type YamlData = string | number | boolean | readonly YamlData[] | YamlSection;

export interface YamlSection {
  readonly [key: string]: YamlData | undefined;
}

/** The value of a comment entry. */
export const NOTE = true;

export function commentedYaml(head: string, data: YamlData): string {
  const document = new Document();
  document.contents = nodeOf(data);
  document.commentBefore = commentLines(head);
  return document.toString({ lineWidth: 0 });
}

function nodeOf(data: YamlData): Node {
  if (Array.isArray(data)) {
    const list = new YAMLSeq();
    list.items = data.map((item: YamlData) => nodeOf(item));
    list.flow = list.items.every((item) => isScalar(item));
    return list;
  }
  if (typeof data !== "object") {
    const scalar = new Scalar(data);
    // Some YAML parsers read `yes`, `on` or `1s` as another type; names of Envoy extensions are safe without quotes.
    if (typeof data === "string" && !/^[A-Za-z]+[._][A-Za-z0-9._/]+$/.test(data)) scalar.type = Scalar.QUOTE_DOUBLE;
    return scalar;
  }
  const map = new YAMLMap();
  let comments: string[] = [];
  for (const [name, value] of Object.entries(data)) {
    if (name.startsWith("#")) comments.push(name.replaceAll(/^# ?/gm, ""));
    else if (value !== undefined) {
      const key = new Scalar(name);
      if (comments.length > 0) key.commentBefore = commentLines(comments.join("\n"));
      comments = [];
      map.items.push(new Pair(key, nodeOf(value)));
    }
  }
  map.flow = isSmall(map);
  return map;
}

/** Sections without comments that fit on one line are written on one line. */
function isSmall(map: YAMLMap): boolean {
  return (
    map.items.every(({ key, value }) => {
      const plain = isScalar(value) || ((isMap(value) || isSeq(value)) && value.flow === true);
      return plain && (key as Scalar).commentBefore === undefined;
    }) && JSON.stringify(map).length <= 80
  );
}

function commentLines(text: string): string {
  return text.replaceAll(/^(?=.)/gm, " ");
}
