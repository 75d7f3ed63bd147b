/**
 * Who a data plane is, by its token or by its certificate, and for which nodes it may act. The common token names no plane
 * and is not restricted.
 */
import { tokenHolders } from "./bearer-token.js";

export interface PlaneCredentials {
  /** Of any plane; empty: none. */
  planeToken: string;
  /** Tokens by plane. A plane without tokens is identified by its certificate alone. */
  planes?: Readonly<Record<string, readonly string[]>> | undefined;
}

export type PlaneIdentity =
  /** `plane`: its name; empty for the common token. */
  | { plane: string }
  | {
      /** `wrong_plane`: token and certificate belong to different planes. */
      denied: "no_token" | "wrong_token" | "wrong_plane";
    };

export type Planes = ReturnType<typeof createPlanes>;

export function createPlanes({ planeToken, planes = {} }: PlaneCredentials) {
  const names = Object.keys(planes);
  const holderOf = tokenHolders([
    [planeToken, ""] as const,
    ...Object.entries(planes).flatMap(([name, tokens]) => tokens.map((token) => [token, name] as const)),
  ]);

  return {
    /** There are credentials. */
    isConfigured: planeToken !== "" || names.length > 0,
    isToken: (token: string) => holderOf(token) !== undefined,

    /** @param certificateNames of a verified certificate */
    identify(token: string, certificateNames: readonly string[]): PlaneIdentity {
      const certified = certificateNames.find((name) => Object.hasOwn(planes, name)) ?? "";
      if (token === "") {
        const isEnough = certified !== "" && planes[certified]?.length === 0;
        return isEnough ? { plane: certified } : { denied: "no_token" };
      }
      const holder = holderOf(token);
      if (holder === undefined) return { denied: "wrong_token" };
      if (holder !== "" && certified !== "" && holder !== certified) return { denied: "wrong_plane" };
      return { plane: certified === "" ? holder : certified };
    },

    /** Whether the plane may act for a node, or for a proxy that holds connections. */
    mayActFor: (plane: string, node: string) => plane === "" || planeOfNode(node, names) === plane,
  };
}

/** The plane with the longest name that a node's name begins with; undefined if no plane fits. */
export function planeOfNode(node: string, planes: readonly string[]): string | undefined {
  let found: string | undefined;
  for (const plane of planes) {
    const isOwn = node === plane || node.startsWith(`${plane}-`) || node.startsWith(`${plane}.`);
    if (isOwn && plane.length > (found?.length ?? 0)) found = plane;
  }
  return found;
}
