if call('EXISTS', run) == 0 then return {'no-such-run'} end
local function all(state) return call('ZRANGE', base .. state, 0, -1) end
return {'ok', int('launched'), int('highest'), int('next'), int('granted'), int('version'), int('epoch'),
  counts(), all('queued'), all('inflight'), all('ready'), call('HGETALL', base .. 'drops'), mean_bytes()}
