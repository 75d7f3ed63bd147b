/** Configurations are shown without their secrets, whichever of them are set. */
import { expect, it } from "vitest";
import { withoutSecrets } from "../../../../src/service/operations/redact.js";

const SECRET = "do-not-show";

it("hides every option that holds a secret, and nothing else", () => {
  const config = {
    store: `redis://user:${SECRET}@redis`,
    control: {
      admin_token: SECRET,
      plane_token: SECRET,
      operators: { ann: SECRET },
      viewers: { bea: [SECRET] },
      planes: { "edge-1": SECRET },
      listen: "127.0.0.1:9145",
    },
    identity: { api_keys: { [SECRET]: "video" } },
    otel: { headers: { authorization: SECRET } },
    apps: { video: { guaranteed: 10 } },
  };
  const shown = withoutSecrets(config);
  expect(JSON.stringify(shown)).not.toContain(SECRET);
  expect(shown).toMatchObject({ control: { listen: "127.0.0.1:9145" }, apps: { video: { guaranteed: 10 } } });
});
