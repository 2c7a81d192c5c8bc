# CMake writes _built_for.py into the build folder and the wheel.
TORCH: str
