/** A cache of valid user names: a table lookup is cheaper than checking every character. */

const users: { known: { [name: string]: true | undefined }; count: number } = { known: {}, count: 0 };
const MAX_USERS = 10000;

export function isKnownUser(name: string): boolean {
  return users.known[name] !== undefined;
}

export function rememberUser(name: string): void {
  if (users.count >= MAX_USERS) {
    users.known = {};
    users.count = 0;
  }
  if (users.known[name] === undefined) {
    users.known[name] = true;
    users.count = users.count + 1;
  }
}
