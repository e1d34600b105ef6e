package message

// cursorKeys are the members of params that are a cursor.
var cursorKeys = keys("cursor")

// WithoutCursor returns a request as written, but for its cursor.
func WithoutCursor(request []byte) ([]byte, error) {
	return rewrite(request, paramsKeys, func(key int, value []byte) ([]byte, error) {
		if key == unknown {
			return value, nil
		}
		return rewrite(value, cursorKeys, func(key int, value []byte) ([]byte, error) {
			if key == unknown {
				return value, nil
			}
			return nil, nil
		})
	})
}
