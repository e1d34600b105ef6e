// Compares what the conformance suite has found through the cache with what it
// has found directly:
//
//	node conformance.mjs REVISION RESULTS
//
// RESULTS has a folder for each pass: direct, cold and warm. Ends with status 1
// if a check that passes directly does not pass through the cache.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [revision, results] = process.argv.slice(2)

// read returns the names of the checks of a pass, by their outcome. The suite
// writes the checks of each scenario into a folder of the scenario's name and the
// time. A check that fails once in a scenario fails. One that is noted only has found
// what it is about absent, such as event streams where JSON will do.
function read(pass) {
	const scenarios = new Set(), passed = new Set(), noted = new Set(), failed = new Set()
	let successes = 0
	for (const folder of readdirSync(join(results, pass))) {
		const file = join(results, pass, folder, 'checks.json')
		if (!existsSync(file)) continue
		const scenario = folder.replace(/-\d{4}-\d\d-\d\dT.*$/, '')
		scenarios.add(scenario)
		for (const check of JSON.parse(readFileSync(file, 'utf8'))) {
			const name = `${scenario} / ${check.id}`
			if (check.status === 'FAILURE') failed.add(name)
			if (check.status === 'INFO') noted.add(name)
			if (check.status !== 'SUCCESS') continue
			passed.add(name)
			successes++
		}
	}
	console.log(`${revision} ${pass}: ${scenarios.size} scenarios, ${successes} checks passed, ${failed.size} failed`)
	return { scenarios, passed, noted, failed }
}

const direct = read('direct')
let worse = 0
for (const pass of ['cold', 'warm']) {
	const { scenarios, passed, noted, failed } = read(pass)
	const differs = (what) => {
		worse++
		console.log(`  ${pass}: ${what}`)
	}
	for (const name of failed) if (!direct.failed.has(name)) differs(`${name} fails through the cache only`)
	for (const scenario of direct.scenarios) if (!scenarios.has(scenario)) differs(`${scenario} did not run through the cache`)
	for (const name of direct.passed) {
		if (![direct.failed, failed, passed, noted].some((names) => names.has(name))) differs(`${name} does not pass through the cache`)
	}
}
process.exit(worse === 0 ? 0 : 1)
