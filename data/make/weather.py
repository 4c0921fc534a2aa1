"""Write weather.csv: eight measurements of a typical meteorological year, out of the 68 columns pvlib publishes.

python data/make/weather.py OUT [--wheels FOLDER]
"""

import csv
import io

from wheels import arguments, read_member, store, wheel_of

# Column in pvlib's file -> name here, unit included. Radiation is what arrived in the hour before the time stamp.
MEASUREMENTS = {
    "GHI (W/m^2)": "global_wh_m2",
    "DNI (W/m^2)": "direct_wh_m2",
    "DHI (W/m^2)": "diffuse_wh_m2",
    "Dry-bulb (C)": "air_c",
    "Dew-point (C)": "dew_point_c",
    "RHum (%)": "humidity_percent",
    "Pressure (mbar)": "pressure_mbar",
    "Wspd (m/s)": "wind_m_s",
}


def shortened(text):
    """Return the smaller table as text: year, month, day, hour (1 to 24, its end), then the measurements as written."""
    table = csv.reader(io.StringIO(text))
    next(table)  # the station: number, name, state, time zone, latitude, longitude, metres above the sea
    columns = {name: place for place, name in enumerate(next(table))}
    wanted = [columns[name] for name in MEASUREMENTS]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["year", "month", "day", "hour", *MEASUREMENTS.values()])
    for row in table:
        month, day, year = row[0].split("/")
        when = [int(part) for part in (year, month, day, row[1].partition(":")[0])]
        values = [row[place] for place in wanted]
        if "-9900" in values:
            raise SystemExit(f"{row[0]} {row[1]}: a measurement is missing")
        writer.writerow([*when, *values])
    return out.getvalue()


def main():
    args = arguments(__doc__)
    wheel = wheel_of("pvlib", "0.16.1", args.wheels)
    text = read_member(wheel, "pvlib/data/723170TYA.CSV").decode("ascii")
    store(args.out, "weather.csv", shortened(text).encode("ascii"))


if __name__ == "__main__":
    main()
