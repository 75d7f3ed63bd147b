/** Options that say which app pays for a request, and which user sent it. */
import {
  filePath,
  flag,
  identifier,
  identityHeader,
  list,
  named,
  network,
  oneOf,
  optional,
  secret,
  section,
  text,
  whole,
  words,
} from "../values.js";

const MAX_CLAIM = 256;

/** Plain HTTP could be changed on the way, and with it the keys. */
const keyUrl = () =>
  text("must be an https:// URL, or an http:// URL of this machine", (value) => {
    const url = URL.canParse(value) ? new URL(value) : undefined;
    if (url === undefined || url.username !== "" || url.password !== "") return false;
    return (
      url.protocol === "https:" || (url.protocol === "http:" && /^(localhost|127\..*|\[::1\])$/.test(url.hostname))
    );
  });

/** Asymmetric algorithms only: a key set that everybody may read cannot have secrets. */
const algorithm = () => oneOf("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA");

const jwt = section({
  jwks_url: optional(keyUrl(), "from `jwks_file`").describe("URL of the JSON Web Key Set with the public keys."),
  jwks_file: optional(filePath(), "from `jwks_url`").describe("File with the JSON Web Key Set."),
  refresh_s: whole(1, 86_400)
    .default(600)
    .describe("How often the keys are read again. If that fails, the last ones stay in use."),
  issuer: optional(words(1_024), "any").describe("The `iss` that tokens must have."),
  audience: list(words(1_024), 0, 100).describe("Tokens must have one of these as `aud`. An empty list accepts any."),
  algorithms: list(algorithm(), 1, 10).default(["RS256", "PS256", "ES256", "EdDSA"]).describe("Accepted algorithms."),
  app_claim: optional(words(MAX_CLAIM), "tokens do not name the app").describe("Claim with the app id."),
  user_claim: words(MAX_CLAIM).default("sub").describe("Claim with the user id. Without it the user is anonymous."),
  clock_tolerance_s: whole(0, 300).default(30).describe("Tolerance for `exp` and `nbf`."),
  required: flag()
    .default(false)
    .describe("Requests without a token get 401; otherwise they are identified by what follows in the order."),
}).superRefine(({ jwks_url, jwks_file }, { addIssue }) => {
  if ((jwks_url === undefined) !== (jwks_file === undefined)) return;
  const message = jwks_url === undefined ? "is required unless jwks_file is set" : "must not be set with jwks_file";
  addIssue({ code: "custom", path: ["jwks_url"], message });
});

export const identity = section({
  app_header: identityHeader().default("X-App-Id").describe("Header with the app id."),
  user_header: identityHeader().default("X-User-Id").describe("Header with the user id."),
  trusted_hops: list(network(), 0, 1_000)
    .default([])
    .describe("Networks whose identity, Forwarded and X-Forwarded-* headers are trusted."),
  forward_identity: flag()
    .default(true)
    .describe(
      "Backends get the app that pays and the user, if it is known, in `app_header` and `user_header`; otherwise they get neither header. They never get these headers as sent by another client, and never `api_key_header`.",
    ),
  untrusted_headers: oneOf("ignore", "reject")
    .default("ignore")
    .describe("Identity headers from other addresses: ignore them, or reject the request with 400."),
  jwt: optional(jwt, "tokens are not read").describe(
    "Apps and users by a JSON Web Token in `Authorization: Bearer`. Node gateway only; see SECURITY.md.",
  ),
  api_key_header: identityHeader().default("X-API-Key").describe("Header with the API key."),
  api_keys: named(list(secret(), 1, 100))
    .prefault({})
    .describe("API keys by app."),
  hosts: named(identifier()).prefault({}).describe("Apps by the host name of the request. Node gateway only."),
  path_segment: whole(0, 16)
    .default(0)
    .describe("The segment of the path that is the app id; 1: the first. 0: none. Node gateway only."),
});
