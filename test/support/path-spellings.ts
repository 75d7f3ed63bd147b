/** A corpus of request targets: spellings of a few resources that some server may take for them. */
import { createRandom } from "./random.js";

const RESOURCES = ["/admin/x", "/admin", "/login", "/caf%C3%A9", "/private/x"];

/** From reports of attacks, and what a random combination would rarely reach. */
const KNOWN = [
  ...["/admin%2fx", "/%2fadmin/x", "/public/..%2fadmin/x", "/login#x", "/login#/../x", "/login?a#b", "/caf%c3%a9"],
  ...["/LOGIN", "/Login/", "/login;x", "/login;jsessionid=1", "/admin;x/y", "/admin;/x", "/;/admin/x", "/..;/admin/x"],
  ...["/public/..;/admin/x", "/public/.;/../admin/x", "/public/..%3b/admin/x", "/admin%5cx", "/admin\\x", "\\admin\\x"],
  ...[
    "/public/..\\admin/x",
    "/public/..%5cadmin/x",
    "//admin/x",
    "//x/admin/x",
    "///admin/x",
    "/\\x/admin/x",
    "//x/login",
  ],
  ...["/public//../admin/x", "/public/../admin/x", "/public/%2e%2e/admin/x", "/public/.%2E/admin/x", "/../admin/x"],
  ...["/./admin/x", "/admin/./x", "/%2e/admin/x", "/admin/../admin/x", "/admin/x/..", "/admin/x/../..", "/login/."],
  ...[
    "/login/..",
    "/login/../login",
    "/%6c%6f%67%69%6e",
    "/%6C%6F%67%69%6E",
    "/%61dmin/x",
    "/a%64min%2fx",
    "/admin%00/x",
  ],
  ...["/%00/admin/x", "/login%00", "/login%3fx", "/login%23x", "/login%20", "/login%09", "/login%0a", "/login%0d%0a"],
  ...[
    "/%zz/../admin/x",
    "/%/admin/x",
    "/login%",
    "/login%2",
    "/%u0061dmin/x",
    "/%c0%afadmin/x",
    "/%c0%ae%c0%ae/admin/x",
  ],
  ...["/%e0%80%afadmin/x", "/%252fadmin/x", "/%2561dmin/x", "/public/%252e%252e/admin/x", "*", "admin/x", "?/admin/x"],
  ...["http://HOST/admin/x", "HTTP://HOST/admin/x", "http://HOST/public/../admin/x", "http://HOST//admin/x"],
  ...["http://HOST:80/login", "http://HOST/login#x", "http://HOST", "http://HOST?/admin/x", "http://HOST/%2fadmin/x"],
  ...["http://user@HOST/admin/x", "http://HOST\\admin/x", "https://HOST/admin/x", "http:/admin/x", "http:///admin/x"],
  ...[
    "/public/http://HOST/admin/x",
    "/admin/x?/../public",
    "/public?/../admin/x",
    "/admin//x",
    "/login//",
    "/login/%20",
  ],
  ...["/private%2fx", "/public/..%2fprivate/x", "/%70rivate/x", "//private/x", "/private/../private/x", "/private;a/x"],
  ...["/caf\xc3\xa9", "/caf%C3\xa9", "/caf\xe9", "/CAF%C3%A9", "/caf%c3%A9/", "/x/../caf%C3%a9", "/caf%C3%A9%2f"],
];

const SLASHES = [
  "%2f",
  "%2F",
  "%5c",
  "%5C",
  "\\",
  "//",
  "///",
  "/./",
  "/%2e/",
  "/%2E/",
  "/x/../",
  "/x/%2e%2e/",
  "/x/.%2e/",
];
const MORE_SLASHES = [
  "/x/..%2f",
  "%2f..%2f",
  "/x%2f../",
  "/.;/",
  "/x/..;/",
  "/x/..;a=b/",
  ";a=b/",
  ";/",
  "/;/",
  "%c0%af",
  "/%20/",
];
const PREFIXES = [
  "/public/..",
  "/.",
  "//x",
  "/public/%2e%2e",
  "/public/..;",
  "/%2f",
  "/public/..%2f",
  "\\",
  "/x/y/../..",
];
const MORE_PREFIXES = [
  "http://HOST",
  "http://HOST:80",
  "HTTP://HOST",
  "/public//..",
  "/..",
  "/%2e%2e",
  "/;a",
  "%2f",
  "//",
  "/x/..%5c..",
];
const SUFFIXES = [
  "#x",
  "#/../x",
  "?x",
  "?a#b",
  "%3fx",
  "%23x",
  "%00",
  "%00.png",
  ";x",
  ";x=1/y",
  "/",
  "//",
  "/.",
  "/..",
  "%2f",
];
const MORE_SUFFIXES = [
  ".",
  "%2e",
  "%20",
  "%09",
  "%zz",
  "%",
  "%u0041",
  "/..;/x",
  "/x/..",
  "%5c",
  "\\",
  "%0a",
  ".json",
  ";",
  `/${"a".repeat(3_000)}/..`,
];

/** The same targets for the same seed. "HOST" stands for the host of the request. */
export function pathSpellings(seed: number, count: number): string[] {
  const random = createRandom(seed);
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const places = (text: string, wanted: RegExp) => [...text].flatMap((letter, i) => (wanted.test(letter) ? [i] : []));
  const replaceAt = (text: string, at: number | undefined, by: (letter: string) => string) =>
    at === undefined ? text : text.slice(0, at) + by(text[at]!) + text.slice(at + 1);
  const hex = (letter: string) => {
    const digits = letter.charCodeAt(0).toString(16).padStart(2, "0");
    return `%${random() < 0.5 ? digits : digits.toUpperCase()}`;
  };
  const changes: ((text: string) => string)[] = [
    (text) => replaceAt(text, one(places(text, /[a-z]/i)), hex),
    (text) => replaceAt(text, one(places(text, /[a-z.;]/i)), hex),
    (text) => replaceAt(text, one(places(text, /\//)), () => one(SLASHES)),
    (text) => replaceAt(text, one(places(text, /\//)), () => one(MORE_SLASHES)),
    (text) => one(PREFIXES) + text,
    (text) => one(MORE_PREFIXES) + text,
    (text) => text + one(SUFFIXES),
    (text) => text + one(MORE_SUFFIXES),
    (text) => replaceAt(text, one(places(text, /[a-z]/i)), (letter) => letter.toUpperCase()),
    (text) => replaceAt(text, one(places(text, /[A-F]/)), (letter) => letter.toLowerCase()),
  ];
  const all = new Set(KNOWN);
  while (all.size < count) {
    let text = one(RESOURCES);
    for (let left = 1 + Math.floor(random() * 3); left > 0; left--) text = one(changes)(text);
    all.add(text);
  }
  return [...all];
}
