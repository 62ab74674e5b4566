--> ok finished:int attempts:pairs failing:pairs
return {'ok', int('games_finished'), call('HGETALL', base .. 'attempts'), call('HGETALL', base .. 'failing')}
