--> ok departures:pairs
return {'ok', call('HGETALL', base .. 'departures')}
