// The first calls. This is no module but an ordinary script: it begins them at once, while a browser still reads the
// modules. These take an answer if they ask for the same with the same token (api.js), and ask themselves otherwise.

/** @type {Map<string, {token: string, response: Promise<Response>}>} */
const begun = new Map();
{
  const given = new URLSearchParams(location.hash.slice(1));
  const kept = (/** @type {string} */ name) => localStorage.getItem(`table-service-explorer-${name}`) ?? '';
  const token = given.get('token') ?? kept('token');
  const begin = (/** @type {string} */ path, /** @type {object} */ parameters) => {
    const body = JSON.stringify(parameters);
    const headers = { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` };
    const response = fetch(`/explorer/api${path}`, { method: 'POST', headers, body });
    // The call that takes the answer gets the error.
    response.catch(() => {});
    begun.set(path + body, { token, response });
  };
  begin('', {});
  const names = ['account', 'table', 'filter', 'select', 'position'];
  const [account, table, filter, select, position] = names.map((name) => given.get(name) || null);
  if (account && table && !given.get('view')) {
    const calls = `/${encodeURIComponent(account)}`;
    begin(`${calls}/query_page`, { table, filter, select, top: Number(kept('page')) || 100, token: position });
    if (filter) {
      begin(`${calls}/explain_query`, { table, filter });
    }
  }
}
