--> ok launched:int highest:int next:int granted:int version:int epoch:int counts:counts queued:ints inflight:ints ready:ints drops:pairs mean_bytes:int
local function all(state) return call('ZRANGE', base .. state, 0, -1) end
return {'ok', int('launched'), int('highest'), int('next'), int('granted'), int('version'), int('epoch'),
  counts(), all('queued'), all('inflight'), all('ready'), call('HGETALL', base .. 'drops'), mean_bytes()}
